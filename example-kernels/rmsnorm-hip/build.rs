fn main() {
    kopt_build::build();
}
