kopt_harness::correctness_main!(rmsnorm_cuda);
