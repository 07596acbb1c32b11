kopt_harness::correctness_main!(softmax_hip);
