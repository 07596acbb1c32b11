kopt_harness::correctness_main!(cross_entropy_cuda);
