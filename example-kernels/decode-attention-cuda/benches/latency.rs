kopt_harness::latency_main!(decode_attention_cuda);
