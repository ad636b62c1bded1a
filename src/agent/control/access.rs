// SPDX-License-Identifier: GPL-2.0-only
//! Who may ask: root, whoever the agent runs as, and a group if there is one for it.

use std::ffi::CString;
use std::fmt;
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result, bail};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

/// Who is at the other end of a connection, as the kernel says.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    uid: Uid,
    gid: Gid,
    pid: i32,
    /// If the user has one.
    name: Option<String>,
}

impl Peer {
    pub fn of(stream: &UnixStream) -> Result<Self> {
        let found = getsockopt(stream, PeerCredentials).context("cannot tell who asks")?;
        let uid = Uid::from_raw(found.uid());
        let name = User::from_uid(uid).ok().flatten().map(|user| user.name);
        Ok(Self { uid, gid: Gid::from_raw(found.gid()), pid: found.pid(), name })
    }

    /// Those of the process, as far as they are known, and those of its user.
    fn groups(&self) -> Vec<Gid> {
        let name = self.name.as_deref().and_then(|name| CString::new(name).ok());
        let of_user = name.and_then(|name| getgrouplist(&name, self.gid).ok());
        of_user.unwrap_or_else(|| vec![self.gid])
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or("somebody");
        write!(out, "{name} (uid {}, process {})", self.uid, self.pid)
    }
}

pub struct Access {
    users: Vec<Uid>,
    group: Option<Group>,
}

impl Access {
    pub fn new(group: Option<&str>) -> Result<Self> {
        let named = |name: &str| -> Result<Group> {
            let found = Group::from_name(name).context("cannot look up groups")?;
            found.with_context(|| format!("there is no group {name:?}: see --control-group"))
        };
        let users = vec![Uid::from_raw(0), Uid::effective()];
        Ok(Self { users, group: group.map(named).transpose()? })
    }

    pub fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    pub fn check(&self, peer: &Peer) -> Result<()> {
        let is_member = |group: &Group| peer.groups().contains(&group.gid);
        if self.users.contains(&peer.uid) || self.group.as_ref().is_some_and(is_member) {
            return Ok(());
        }
        match &self.group {
            Some(group) => bail!("only root and the group {} may ask the scheduler", group.name),
            None => bail!("only root may ask the scheduler: run it again with sudo"),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn peer(uid: u32, gid: u32, name: Option<&str>) -> Peer {
        let name = name.map(str::to_owned);
        Peer { uid: Uid::from_raw(uid), gid: Gid::from_raw(gid), pid: 7, name }
    }

    pub fn access(users: &[u32], group: Option<u32>) -> Access {
        let named = |gid| Group {
            name: "operators".to_owned(),
            passwd: CString::default(),
            gid: Gid::from_raw(gid),
            mem: Vec::new(),
        };
        let users = users.iter().map(|uid| Uid::from_raw(*uid)).collect();
        Access { users, group: group.map(named) }
    }

    #[test]
    fn root_and_members_may_ask_and_nobody_else() {
        let stranger = peer(54321, 54321, None);
        assert!(access(&[0], None).check(&peer(0, 54321, None)).is_ok());
        let told = access(&[0], None).check(&stranger).unwrap_err();
        assert_eq!(told.to_string(), "only root may ask the scheduler: run it again with sudo");
        assert!(access(&[0], Some(54321)).check(&stranger).is_ok());
        let told = access(&[0], Some(54322)).check(&stranger).unwrap_err();
        assert_eq!(told.to_string(), "only root and the group operators may ask the scheduler");
    }

    /// By the system's own lists: everybody has a user root, whose group is 0.
    #[test]
    fn who_is_a_member_is_looked_up_by_the_name_of_the_user() {
        let known = peer(54321, 0, Some("root"));
        assert!(access(&[0], Some(0)).check(&known).is_ok());
        assert!(access(&[0], Some(54322)).check(&known).is_err());
        assert!(access(&[0], Some(0)).check(&peer(54321, 0, Some("nobody has this name"))).is_ok());
    }

    #[test]
    fn a_peer_is_who_the_kernel_says() {
        let (here, _there) = UnixStream::pair().unwrap();
        let peer = Peer::of(&here).unwrap();
        assert_eq!((peer.uid, peer.pid), (Uid::effective(), std::process::id() as i32));
        assert!(Access::new(None).unwrap().check(&peer).is_ok());
        assert!(peer.to_string().ends_with(&format!("process {})", std::process::id())));
    }

    #[test]
    fn a_group_that_is_not_there_is_refused() {
        let told = Access::new(Some("no such group")).err().unwrap().to_string();
        assert_eq!(told, "there is no group \"no such group\": see --control-group");
    }
}
