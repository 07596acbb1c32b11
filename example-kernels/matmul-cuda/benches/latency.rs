kopt_harness::latency_main!(matmul_cuda);
