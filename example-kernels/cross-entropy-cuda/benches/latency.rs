kopt_harness::latency_main!(cross_entropy_cuda);
