kopt_harness::correctness_main!(matmul_cuda);
