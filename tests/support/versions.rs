//! Versions whose rows count for today's code, and why: what differs must not reach what the rows rest on. A list names the key that
//! the code had when somebody last went through it; `tests/rows.rs` holds that against the code as it is. Who changes what is
//! measured or judged adds the key of before to each list whose rows still count, with the reason, and names today's.

/// Rows of one kind of code.
#[derive(Debug)]
pub struct Kind {
    /// The key of today's code.
    pub now: &'static str,
    /// Versions as good, the newest first.
    pub earlier: &'static [Earlier],
}

/// An earlier version.
#[derive(Debug)]
pub struct Earlier {
    /// Its key.
    pub key: &'static str,
    /// What has changed since, and why its decisions count.
    #[allow(dead_code, reason = "for people, and for the test that there is one")]
    pub why: &'static str,
    /// Why its campaigns and gates count too, which rest on every ruling, those on what is slower among them; none where they
    /// do not.
    pub campaigns: Option<&'static str>,
}

const fn decisions(key: &'static str, why: &'static str) -> Earlier {
    Earlier { key, why, campaigns: None }
}

const fn all(key: &'static str, why: &'static str) -> Earlier {
    Earlier { key, why, campaigns: Some("for the same reason") }
}

const fn each(key: &'static str, why: &'static str, campaigns: &'static str) -> Earlier {
    Earlier { key, why, campaigns: Some(campaigns) }
}

/// Decisions on a processor.
pub const PROCESSOR: Kind = Kind {
    now: "3912bd2543d7",
    earlier: &[
        all(
            "504b355cbae6",
            "since then device code that provably keeps nothing is traced once, unless that leaves a doubt, and sanitizers on a device keep it only while it is at work: \
                 on a processor neither happens",
        ),
        all(
            "d1fd7f0d5490",
            "since then both sides of a trace are loaded at the same time, as those of a launch are, before any call is made; and how many trials share a process, \
                 which on a processor is one, goes by their memory",
        ),
        all(
            "01402b8e84fd",
            "since then a confirmation of a gain that has begun is brought to its first look where the time is over; those of before that were cut off there do \
                 not count",
        ),
        all(
            "ccaf9586d6bc",
            "since then what a call has to read is counted on the contents that are drawn, which is less for grouped products of which a group has no row: \
                 none of these was refused for being faster than the ceilings allow; and no contestant finds a seed of its trials among what it is started with: matches \
                 have none there",
        ),
        all("8e769d838791", "since then who is far too slow is slower, and not wrong: nobody was in these"),
        all(
            "64ec345070c4",
            "since then a match that its control has called off is held once more; those of before that ended so do not count, but with equal code",
        ),
        all(
            "7369e7e32415",
            "since then all tests of honesty together err once in a thousand, instead of each of them: one honest slower patch in these was called a violation, and is \
                 accepted neither way; a trace's times are held against the judge's clock, a candidate that takes a minute and twenty times as long as the incumbent loses, \
                 and what the judge cannot do itself is no fault of the candidate's: there is none of these; and weights that two entries share are read once by what \
                 the ceilings allow",
        ),
        all("8a47dbf215ab", "since then no worker on a processor may say that there is no memory left: none did"),
        all(
            "934e8b4ba6de",
            "since then a device without memory left, which a processor has not, is told apart from other trouble; and batches have a file of their own",
        ),
        all(
            "cc99033076dc",
            "since then messages between judge and worker name what they are in another place, which is not timed; and a look gives a gain up at 90 instead of 98 %, \
                 which accepts nothing more, and misses a gain of 2 % in 3 cases of 1000 instead of none where launches differ by 1.5 % (simulated)",
        ),
        all(
            "3a7c348a71a6",
            "since then a confirmation ends where the gain of its screen is ruled out, which accepts nothing and misses no gain of 2 % (`gate::tests`); and poison, \
                 the same bits, is written faster",
        ),
        all(
            "cecca52d0ae6",
            "since then a confirmation that single shapes hold up is looked at before all its launches are made: it ends earlier, and a loss of 5 % in a shape, \
                 which both stages must miss, passes as seldom (`gate::tests`); and calls of 2 ms are warmed up once instead of twice, and a trace looks for late \
                 writes after one call of four and at its end",
        ),
        each(
            "5bebbc8e5bc9",
            "since then calls of more than 0.6 ms are timed in twice as many blocks a launch: what launches differ by is less, and nothing is judged otherwise",
            "campaigns that such a shape held up say so, and do not count",
        ),
        all("e393e6a54632", "since then a block in which a clock stood still is made again: there is none in a row"),
        all(
            "3ee3e88d6e7a",
            "since then as many trials run beside each other before a match as there are processors, which were two, and who seems to remember calls is looked at \
                 again: the one who was accused in these does not count",
        ),
        all(
            "1c255a8c3aca",
            "since then the time of a match is that of its launches, without what they wait for a device: on a processor nothing is waited for",
        ),
        all(
            "967a9ec59f50",
            "since then the contestants of a trace stay on one processor, too, and the judge while it asks for calls; and who leaves it is refused: nobody did; and \
                 a gain of a third or more must be shown by the judge's clock, too",
        ),
        each(
            "deb2fbe77c95",
            "since then all contestants of a launch stay on one processor instead of where the system puts each: what launches differ by is less; a gain of a third \
                 or more must be shown by the judge's clock, too, which accepts less; gains that were missed for noise count as missed; and a campaign's quick \
                 validation, which these are not, is not confirmed",
            "nothing is judged otherwise, but that a gain of a third or more must be shown by the judge's clock, too, as those of honest patches are",
        ),
        each(
            "dd1abed62357",
            "since then one that is shown is looked at further where only single shapes hold it up; in these rows equal code showed none after its last look, and \
                 gains that were missed count as missed; and a process may run for 0.2 s of a launch while it is to wait, instead of 0.02 s, before a single launch is \
                 held against it: in none of these it was; what is called slower for one shape is so with more certainty, which accepts nothing; and a processor is \
                 also named by its model",
            "the one campaign in which a single shape held a gain up says so, and does not count; gates look as they did; and no patch in these that helps was \
                 rolled back for one shape",
        ),
        each(
            "ed5fbb8de258",
            "since then what is slower is no longer called a violation for processor time that is counted beyond its own clock, and more files are among those that \
                 the key is of; nothing was called one in these rows",
            "one slower patch of one campaign was called a violation, and is rolled back either way",
        ),
        decisions(
            "c281bf4bfc4f",
            "since then gates, whose rows count only where they are of their own version, weigh launches by how closely they looked",
        ),
        decisions(
            "bce47da87269",
            "since then a gate needs two launches to call a slowdown gross, a judge compares the digest of an object with the one that the referee names, and may \
                 take longer to check a candidate; none of these is a gate's; and as below",
        ),
        decisions(
            "2047c349ecb2",
            "since then the distribution of the first contents is drawn, and the host's gauge, devices and references of large products on them have other rules, \
                 and a gain's confirmation is looked at twice, each time at half of its error, instead of once at all of it; calls and their times are the same",
        ),
        decisions(
            "29dca9de40e6",
            "since then, and before the one above, calls find contents of several distributions instead of one and their memory mapped before, may not return from \
                 signals, and find more of the processor's state as it was at first, for both versions alike; rows of this version stand beside those",
        ),
    ],
};

/// Decisions on a GPU.
pub const GPU: Kind = Kind {
    now: "d738966af7e3",
    earlier: &[
        all(
            "536c6d9fd0ce",
            "since then device code that provably keeps nothing is traced once, unless that leaves a doubt: equal code is not traced, and no gain in these was refused \
                 for what a trace showed; and sanitizers keep the device only while it is at work",
        ),
        all("0e8461fea4e7", "since then unit tests measure ceilings on smaller buffers, and nobody else does"),
        all(
            "0bd4f9cfb867",
            "as on a processor since d1fd7f0d5490, but that large trials share processes, too; and a trace has what its contents come from in common with the \
                 launches, instead of a copy: nothing that is timed has changed",
        ),
        all("193a212ab976", "as on a processor since ccaf9586d6bc"),
        all("5b97419b6766", "as on a processor since 7369e7e32415; nobody was called a violation in these"),
        all("d5300ec91b21", "as on a processor since 8a47dbf215ab"),
        all(
            "0a2d9ea2b06e",
            "since then a device without memory left, which happened in none of these, is no verdict; and batches, graphs and errors have files of their own",
        ),
        all("e383ecbe0784", "as on a processor since cc99033076dc"),
        all(
            "9bc376319343",
            "since then the ceilings of reading, writing and matrix units are measured, too: what would be faster than they allow is refused, and none of these is",
        ),
        all("a67b0bf69b3c", "as on a processor since 3a7c348a71a6"),
        all("95f8331b531c", "as on a processor since cecca52d0ae6"),
        all("0d96c468884e", "since then calls of more than 1.6 ms are timed in up to twice as many blocks a launch"),
        all(
            "4b5daccc68c1",
            "since then up to four trials run beside each other before a match, and who seems to remember calls is looked at again: nobody did",
        ),
        all(
            "eada2b8a220f",
            "since then what launches wait for the device is not counted as time of the match; nobody else timed there",
        ),
        all(
            "d9d04c955afc",
            "since then contestants on a CPU stay on one processor, and a campaign's quick validation is not confirmed",
        ),
        all(
            "79d32dcae27f",
            "since then a processor is also named by its model, and a gain that a shape holds up, which is none of these, looked at further only where that can \
                 settle it",
        ),
        each("f902501cd16b", "as on a processor since dd1abed62357", "it happened in none of these"),
        all("85e0264f333c", "as on a processor since ed5fbb8de258; processor time is not counted here"),
        decisions(
            "e48ad55d3ddd",
            "as on a processor since c281bf4bfc4f, and a kernel that has much shared memory for one shape keeps it when another needs less, and may have large clusters; these have \
                 little of either for all",
        ),
        decisions(
            "8d10f9302eb4",
            "since then the driver is called through a trait, plans may ask for tensor maps and cooperative launches, scratch memory is spoiled before every call \
                 (these kernels have none of all that), contents come from several distributions, blocks are discarded while the device protects itself, processes that \
                 time take turns, a confirmation is looked at twice, memory of the host is moved and compared otherwise, and traces and gates, which these are not, \
                 have other rules",
        ),
        decisions("cd7594c74685", "as above, and ceilings are doubted before the trace instead of after it"),
        decisions("b355adbca461", "as above, and batches above 15 ms, which these do not have, are timed once"),
        decisions("e5d640d58909", "as above, and what looks like memory in a trace is looked at again from 2 % on"),
    ],
};

/// Refusals of exploits on a processor.
pub const EXPLOITS: Kind = Kind {
    now: "af89b0be6473",
    earlier: &[
        decisions("fc649739f127", "as on a processor since 504b355cbae6"),
        decisions("42b0ad817946", "since then what racecheck finds is told in other words"),
        decisions("1b85e30ddbc3", "as on a processor since d1fd7f0d5490"),
        decisions(
            "6438aaff33d0",
            "since then a machine on which a kernel cannot be compiled for the sanitizers, or no program runs under them, is told apart from what they find: these \
                 were made on none",
        ),
        decisions(
            "55c0390730be",
            "as on a processor since 7369e7e32415: `12`, which the records of its times refuse where audit and sandbox are off, tells half of them",
        ),
        decisions(
            "202f9316b507",
            "as on a processor since 8a47dbf215ab, and a tool of compute-sanitizer that did not see the calls looks again",
        ),
        decisions("551f2edb793f", "as on a processor since 934e8b4ba6de"),
        decisions("8aabe29c8dfb", "since then `46`, which is no exploit any more, is gone"),
        decisions(
            "bec1471138a5",
            "since then the system's mathematics for several elements is shown, which refuses nothing; `46` and `50`, which are no exploits, are gone, and `43` is refused: \
                 its rows of before are gone, too",
        ),
        decisions("ea4feb25e13c", "as on a processor since cc99033076dc, and a forged answer has the new form"),
        decisions(
            "a939c9f32019",
            "as on a processor since 5bebbc8e5bc9, and compute-sanitizer's tools run side by side",
        ),
        decisions(
            "3d9bd4bcee1f",
            "since then who seems to remember calls is looked at again, as `tests/exploits.rs` does; and `15`, which is for a GPU, has other sizes",
        ),
        decisions(
            "bfeb6c71b65a",
            "since then `39` moves the start twice as far; its rows on the plain harness are new, and what refuses it is the same",
        ),
        decisions("0062f4348df0", "as the ones before"),
        decisions(
            "c705b392295c",
            "since then all contestants of a launch stay on one processor; what refuses them is the same",
        ),
        decisions(
            "47dc13541ecd",
            "as on a processor since dd1abed62357, what is refused is not refused for a shape that is open; and hints to the cache, which no exploit on a processor has, are noted \
                 instead of refused",
        ),
        decisions(
            "498c0bfd9273",
            "as on a processor since c281bf4bfc4f, none of them is decided by whether a gate is clear; and audit and sanitizers refuse more than they did",
        ),
        decisions(
            "169c70a64769",
            "since then the judge flushes the caches, deals and compares otherwise and asks for one call at a time, a trace that leaves a doubt is repeated, gates \
                 and sanitizers see more, what cannot be read is refused, no call returns from a signal, and exploits for devices stand beside these, and audit and \
                 sanitizers refuse more: what was refused is, for the same reasons or for one more, and `tests/exploits.rs` shows it for each",
        ),
        decisions("68120f3e710e", "as above; these are decided without a trace"),
    ],
};

/// Refusals of exploits on a GPU.
pub const EXPLOITS_ON_GPU: Kind = Kind {
    now: "b1e761bd08b6",
    earlier: &[
        decisions(
            "afe1acb92b69",
            "as on a GPU since 536c6d9fd0ce; none of these was refused by the second or third trace of a shape",
        ),
        decisions("6f34373a2a04", "as on a GPU since 0e8461fea4e7, and what racecheck finds is told in other words"),
        decisions("a76d8d20311e", "as on a GPU since 0bd4f9cfb867; smaller trials shared processes before"),
        decisions("aeb0c1344a15", "as on a processor since 6438aaff33d0"),
        decisions("0020c02fd1b2", "as on a processor since 55c0390730be: none is refused by its records"),
        decisions("28f176972255", "as on a processor since 202f9316b507"),
        decisions("41c92303850c", "as on a GPU since 0a2d9ea2b06e"),
        decisions("b60ea74e0d51", "as on a processor since bec1471138a5: none of that is in device code"),
    ],
};
