kopt_harness::correctness_main!(matmul_cpu);
