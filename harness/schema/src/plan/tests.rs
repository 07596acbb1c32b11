//! Plans that are read, refused and resolved.

use super::*;
use crate::dtype::DType;

const GOOD: &str = r#"
[[launch]]
kernel = "softmax_wide"
when = "cols > 1024"
grid = ["rows"]
block = [256]
shared = "align_up(cols, 4) * 4"

[[launch]]
kernel = "softmax_narrow"
when = "cols <= 1024"
grid = ["ceil_div(rows, 8)", 2]
block = [32, 8]
args = ["x", "partial"]

[[workspace]]
name = "partial"
bytes = "rows * 8"
"#;

fn context() -> PlanContext {
    PlanContext {
        entries: vec![("softmax".to_owned(), ["x", "y", "rows", "cols"].map(str::to_owned).into())],
        integers: vec!["rows".to_owned(), "cols".to_owned()],
        texts: vec!["dtype".to_owned()],
    }
}

fn scope(rows: i64, cols: i64) -> BTreeMap<String, Value> {
    [("rows".to_owned(), Value::Int(rows)), ("cols".to_owned(), Value::Int(cols))].into()
}

#[test]
fn a_case_chooses_its_launches() {
    let plan = parse("p.toml", GOOD, &context()).unwrap();
    let wide = plan.resolve("softmax", &scope(5, 2000)).unwrap();
    assert_eq!(wide.len(), 1);
    assert_eq!((wide[0].grid, wide[0].block, wide[0].shared), ([5, 1, 1], [256, 1, 1], 8000));
    let narrow = plan.resolve("softmax", &scope(9, 100)).unwrap();
    assert_eq!(narrow[0].grid, [2, 2, 1]);
    assert_eq!(narrow[0].fields.as_deref(), Some(&["x".to_owned(), "partial".to_owned()][..]));
    assert_eq!(plan.workspace_of(&narrow, &scope(9, 100)).unwrap()[0].bytes, 72);
    assert_eq!(plan.workspace_of(&wide, &scope(5, 2000)).unwrap(), [], "nobody takes it");
    assert_eq!(plan.resolve("softmax", &scope(0, 100)).unwrap(), []);
}

#[test]
fn mistakes_point_into_the_file() {
    let cases = [
        ("\"rows\"]", "\"rosw\"]", (5, 10), "did you mean `rows`"),
        ("when = \"cols > 1024\"", "when = \"cols\"", (4, 9), "needs a condition"),
        ("block = [256]", "blokc = [256]", (6, 1), "unknown field `blokc`"),
        ("block = [256]", "block = [1, 1, 1, 1]", (6, 9), "one to three sizes"),
        ("\"partial\"]", "\"partail\"]", (14, 14), "did you mean `partial`"),
        ("kernel = \"softmax_wide\"", "entry = \"sofmtax\"\nkernel = \"k\"", (3, 9), "did you mean `softmax`"),
        ("* 4\"", "* \"", (7, 31), "a value is missing"),
    ];
    for (from, to, place, message) in cases {
        let findings = parse("p.toml", &GOOD.replacen(from, to, 1), &context()).unwrap_err();
        assert!(findings[0].to_string().contains(message), "{to}: {}", findings[0]);
        assert_eq!(findings[0].position, Some(place), "{to}: {}", findings[0]);
    }
    let findings = parse("p.toml", "", &context()).unwrap_err();
    assert!(findings[0].message.contains("no launch for entry `softmax`"));
}

#[test]
fn a_workspace_buffer_takes_no_other_name_s_place() {
    let of_field = GOOD.replace("name = \"partial\"", "name = \"y\"").replace("\"partial\"]", "\"y\"]");
    let twice = format!("{GOOD}\n[[workspace]]\nname = \"partial\"\nbytes = 8\n");
    for (text, key, place) in [(of_field, "workspace[0].name", (17, 8)), (twice, "workspace[1].name", (21, 8))] {
        let findings = parse("p.toml", &text, &context()).unwrap_err();
        assert_eq!(findings.len(), 1, "{findings:#?}");
        assert_eq!((findings[0].key.as_deref(), findings[0].position), (Some(key), Some(place)));
        assert!(findings[0].message.contains("is the name of something else already"), "{}", findings[0]);
    }
}

#[test]
fn an_impossible_launch_is_refused_with_its_numbers() {
    let plan = parse("p.toml", &GOOD.replace("[256]", "[\"cols\"]"), &context()).unwrap();
    assert!(plan.resolve("softmax", &scope(1, 2000)).unwrap_err().contains("more than 1024 threads"));
    let plan = parse("p.toml", &GOOD.replace("[\"rows\"]", "[\"rows - 10\"]"), &context()).unwrap();
    assert!(plan.resolve("softmax", &scope(1, 2000)).unwrap_err().contains("out of range"));
}

#[test]
fn a_launch_is_cooperative_if_it_says_so() {
    let text = GOOD.replacen("grid", "cooperative = true\ngrid", 1);
    let plan = parse("p.toml", &text, &context()).unwrap();
    assert!(plan.resolve("softmax", &scope(5, 2000)).unwrap()[0].cooperative);
    assert!(!plan.resolve("softmax", &scope(5, 100)).unwrap()[0].cooperative);
}

const TILED: &str = r#"
[[launch]]
kernel = "softmax_tiles"
when = "cols % 4 == 0"
grid = ["ceil_div(rows, 8)"]
block = [256]
args = ["x_tiles", "y", "sums"]

[[launch]]
kernel = "softmax_rows"
when = "cols % 4 != 0"
grid = ["rows"]
block = [256]

[[tensor_map]]
name = "x_tiles"
buffer = "x"
sizes = ["cols", "rows"]
box = [32, 8]
swizzle = "128"

[[tensor_map]]
name = "sums"
buffer = "partial"
dtype = "f32"
sizes = ["rows", 2, 3]
strides = ["align_up(rows, 4)", 1024]
box = [16, 1, 1]
l2 = "256"
fill = "nan"

[[workspace]]
name = "partial"
bytes = 16384
"#;

/// The maps of a case whose fields are of `dtype`.
fn maps(text: &str, dtype: DType, rows: i64, cols: i64) -> Result<Vec<TensorMap>, String> {
    let (plan, scope) = (parse("p.toml", text, &context()).unwrap(), scope(rows, cols));
    let bytes = usize::try_from(rows * cols).unwrap() * dtype.size();
    let launches = plan.resolve("softmax", &scope).unwrap();
    plan.tensor_maps(&launches, &scope, &|_| Ok(Some(Extent { dtype, bytes })))
}

#[test]
fn maps_of_chosen_launches_are_given_in_numbers() {
    let found = maps(TILED, DType::F32, 5, 100).unwrap();
    let x = &found[0];
    assert_eq!((x.name.as_str(), x.buffer.as_str(), x.dtype), ("x_tiles", "x", DType::F32));
    assert_eq!((&x.sizes[..], &x.strides[..], &x.tile[..]), (&[100, 5][..], &[400][..], &[32, 8][..]));
    assert_eq!((x.swizzle, x.l2, x.fill), (Swizzle::Within128, Promotion::None, Outside::Zero));
    let sums = &found[1];
    assert_eq!((sums.dtype, &sums.strides[..]), (DType::F32, &[32, 4096][..]));
    assert_eq!((sums.swizzle, sums.l2, sums.fill), (Swizzle::None, Promotion::By256, Outside::Nan));
    // 101 columns have no map, and their launch takes none.
    assert_eq!(maps(TILED, DType::F32, 5, 101).unwrap(), []);
}

#[test]
fn a_map_whose_elements_are_not_known_is_checked_as_far_as_it_goes() {
    let plan = parse("p.toml", TILED, &context()).unwrap();
    let scope = scope(5, 100);
    let launches = plan.resolve("softmax", &scope).unwrap();
    let found = plan.tensor_maps(&launches, &scope, &|_| Ok(None)).unwrap();
    assert_eq!(found.iter().map(|map| map.name.as_str()).collect::<Vec<_>>(), ["sums"]);
    let plan = parse("p.toml", &TILED.replace("[32, 8]", "[32, \"cols * 8\"]"), &context()).unwrap();
    assert!(plan.tensor_maps(&launches, &scope, &|_| Ok(None)).unwrap_err().contains("800 is out of range"));
}

#[test]
fn an_impossible_map_is_refused_with_its_numbers() {
    let cases = [
        ("box = [32, 8]", "box = [512, 8]", "tensor map `x_tiles`: `box` [512, 8]: 512 is out of range"),
        ("box = [32, 8]", "box = [\"cols - 200\", 8]", "which is negative"),
        ("box = [32, 8]", "box = [33, 8]", "rows of 132 bytes are no multiple of 16"),
        ("box = [32, 8]", "box = [36, 8]", "rows of 144 bytes exceed a swizzle of 128: at most 32 of f32"),
        ("[\"cols\", \"rows\"]", "[\"cols\", \"rows - 5\"]", "0 is out of range; give such shapes another launch"),
        ("[\"cols\", \"rows\"]", "[\"cols - 1\", \"rows\"]", "396 bytes"),
        ("[\"cols\", \"rows\"]", "[\"cols\", \"rows + 1\"]", "reach 2400 bytes into `x`, which has 2000"),
        ("\"align_up(rows, 4)\"", "2", "8 bytes is no multiple of 16; give such shapes another launch with `when`"),
        ("\"align_up(rows, 4)\"", "0", "0 bytes is out of range"),
        ("1024]", "1_099_511_627_776]", "bytes is out of range"),
        ("bytes = 16384", "bytes = 64", "into `partial`, which has 64"),
        ("dtype = \"f32\"", "dtype = \"i32\"", "an integer is no NaN"),
    ];
    for (from, to, message) in cases {
        let error = maps(&TILED.replacen(from, to, 1), DType::F32, 5, 100).expect_err(to);
        assert!(error.contains(message), "{to}: {error}");
    }
    // Rows of 100 are 400 bytes in f32, a multiple of 16, and 200 in bf16, none.
    assert!(maps(TILED, DType::Bf16, 5, 100).unwrap_err().contains("200 bytes is no multiple of 16"));
    assert!(maps(TILED, DType::Bf16, 5, 104).is_ok());
}

#[test]
fn mistakes_in_a_map_point_into_the_file() {
    let cases = [
        ("buffer = \"x\"", "buffer = \"xx\"", "tensor_map[0].buffer", "no field or workspace buffer `xx`"),
        ("name = \"x_tiles\"", "name = \"y\"", "tensor_map[0].name", "the name of something else"),
        ("dtype = \"f32\"\n", "", "tensor_map[1].buffer", "write `dtype`"),
        ("[\"cols\", \"rows\"]", "[1, 1, 1, 1, 1, 1]", "tensor_map[0].sizes", "one to five sizes, not 6"),
        ("[32, 8]", "[32]", "tensor_map[0].box", "has 1 of the 2 sizes"),
        (", 1024]", "]", "tensor_map[1].strides", "1 of 3 sizes: each but the first has one"),
        ("\"cols\", \"rows\"]", "\"cosl\", \"rows\"]", "tensor_map[0].sizes[0]", "did you mean `cols`"),
        ("[\"x_tiles\", \"y\"", "[\"x_tlies\", \"y\"", "launch[0].args[0]", "did you mean `x_tiles`"),
    ];
    for (from, to, key, message) in cases {
        let findings = parse("p.toml", &TILED.replacen(from, to, 1), &context()).unwrap_err();
        let found = findings.iter().find(|finding| finding.key.as_deref() == Some(key));
        let all: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(found.is_some_and(|finding| finding.to_string().contains(message)), "{to}: {all:#?}");
    }
    for (from, to, message) in [("\"128\"", "\"48\"", "unknown variant `48`"), ("swizzle", "swizle", "`swizzle`?")] {
        let findings = parse("p.toml", &TILED.replacen(from, to, 1), &context()).unwrap_err();
        assert!(findings[0].to_string().contains(message), "{to}: {}", findings[0]);
    }
}

#[test]
fn a_launch_takes_maps_of_what_its_entry_has() {
    let mut context = context();
    context.entries.push(("softmax_backward".to_owned(), ["dy", "dx"].map(str::to_owned).into()));
    let backward = "[[launch]]\nentry = \"softmax_backward\"\nkernel = \"k\"\ngrid = [1]\nblock = [32]\n";
    let text = format!("{TILED}\n{backward}args = [\"dy\", \"sums\", \"x_tiles\"]\n");
    let findings = parse("p.toml", &text, &context).unwrap_err();
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings[0].key.as_deref(), Some("launch[2].args[2]"));
    assert!(findings[0].message.contains("a map of `x`, which entry `softmax_backward` has not"));
}
