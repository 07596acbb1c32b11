kopt_harness::correctness_main!(grouped_matmul_cuda);
