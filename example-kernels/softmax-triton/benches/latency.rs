kopt_harness::latency_main!(softmax_triton);
