kopt_harness::latency_main!(rmsnorm_cuda);
