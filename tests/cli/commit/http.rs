//! Pushing to git's own HTTP server on loopback.

use super::{replicas, web};
use crate::git_http::Server;

#[test]
fn a_branch_is_pushed_over_http() {
    let sandbox = web();
    sandbox.git("clone -q --bare . served/.remote.git");
    sandbox.git("-C served/.remote.git config http.receivepack true");
    let server = Server::start(&sandbox.path("served"));
    sandbox.git(&format!("remote add origin {}/.remote.git", server.address()));
    sandbox.run("commit --branch rendered --push").code(0);
    replicas(&sandbox, 6);
    sandbox.run("commit --branch rendered --push").code(0);
    let again = sandbox.run("commit --branch rendered --push -o json").code(0).json();
    assert_eq!(again["changed"], false);
    assert_eq!(sandbox.git("-C served/.remote.git rev-list --count rendered").trim(), "2");
    sandbox.git("-C served/.remote.git fsck --full --strict");
    server.refuse_pushes();
    replicas(&sandbox, 8);
    let secret = server.address().replace("http://", "http://user:hunter2@");
    let said = sandbox.run(&format!("commit --branch rendered --push {secret}/.remote.git")).code(2).err;
    assert!(said.contains("403") && !said.contains("hunter2"), "{said}");
    let secret = format!("{}/.remote.git?private_token=hunter2", server.address());
    let said = sandbox.run(&format!("commit --branch rendered --push {secret}")).code(2).err;
    assert!(said.contains("`git ") && said.contains("?…") && !said.contains("hunter2"), "{said}");
    assert_eq!(sandbox.git("rev-list --count rendered").trim(), "2");
}
