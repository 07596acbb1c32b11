kopt_harness::kernel!();
