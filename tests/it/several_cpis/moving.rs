//! From one CPI to another and back.

use std::process::Command;

use super::{Clouds, assert_said, said};

#[test]
fn there_and_back_with_a_disk() {
    let clouds = Clouds::new();
    clouds.create("z-east", &[]).success();
    assert_eq!(clouds.hello.ask().1, 1);
    let before = clouds.hello.world.read("state.json");

    let run = clouds.create("z-west", &[]).failure(3);
    assert_said(&run, "the environment moves from CPI 'east' to CPI 'west', and its persistent disk");
    assert_said(&run, "--recreate-persistent-disks");
    assert_eq!(clouds.hello.world.read("state.json"), before);
    assert_eq!(clouds.hello.ask().1, 2, "nothing happened to it");

    for (az, here, gone) in
        [("z-west", "west", "east"), ("z-foreign", "cloud", "west"), ("z-east", "east", "cloud")]
    {
        let run = clouds.create(az, &["-n", "--recreate-persistent-disks"]).success();
        assert_eq!(clouds.counts(here), [1, 1, 1], "{}", said(&run));
        assert_eq!(clouds.counts(gone), [0, 0, 0], "{}", said(&run));
        assert_eq!(clouds.hello.ask().1, 1, "the disk is a new one");
        let run = clouds.create(az, &[]).success();
        assert_said(&run, "Nothing changed");
    }
    clouds.delete("z-east").success();
    assert_eq!(clouds.inhabited(), Vec::<&str>::new());
    assert_eq!(clouds.hello.leftovers(), Vec::<String>::new());
}

#[test]
fn without_a_disk_nothing_is_asked() {
    let mut clouds = Clouds::new();
    clouds
        .hello
        .ops("no-disk.yml", "- {type: remove, path: /instance_groups/name=hello/persistent_disk_pool}\n");
    clouds.create("z-default", &[]).success();
    let run = clouds.create("z-east", &[]).success();
    assert_eq!((clouds.counts("default"), clouds.counts("east")), ([0, 0, 0], [1, 0, 1]), "{}", said(&run));
    clouds.delete("z-east").success();
}

#[test]
fn at_a_terminal_the_loss_of_a_disk_is_asked_about() {
    let clouds = Clouds::new();
    clouds.create("z-east", &[]).success();
    let command = clouds.command("create-env", "z-west", &["--recreate-persistent-disks"]);
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    clouds.hello.world.write("start", format!("#!/bin/sh\nexec {}\n", words.join(" ")));
    let mut script = Command::new("sh");
    clouds.hello.world.enter(&mut script).env("TERM", "xterm");
    script.args(["-c", "(sleep 3; echo n) | script --quiet --return --command 'sh ./start' /dev/null"]);
    let run = clouds.hello.world.finish(script);
    assert_said(&run, "with all its data");
    assert_said(&run, "not confirmed: nothing was changed");
    assert_eq!(clouds.inhabited(), ["east"]);
    clouds.delete("z-east").success();
}
