kopt_harness::correctness_main!(decode_attention_cuda);
