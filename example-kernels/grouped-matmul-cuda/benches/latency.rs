kopt_harness::latency_main!(grouped_matmul_cuda);
