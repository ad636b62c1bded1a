// SPDX-License-Identifier: GPL-2.0-only
//! Who may ask: root, the user that the agent runs as, and a group if there is one for it.

use std::fmt;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::{Gid, Group, Uid, User};

/// The process at the other end of a connection, as the kernel describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    uid: Uid,
    gid: Gid,
    /// All other groups that the process was in. They need not be those of its user: a container or
    /// a service may have been given some.
    groups: Vec<Gid>,
    pid: i32,
    /// The name of the user, if there is one.
    name: Option<String>,
}

impl Peer {
    pub fn of(stream: &UnixStream) -> Result<Self> {
        let found = getsockopt(stream, PeerCredentials).context("cannot tell who asks")?;
        let groups = groups_of(stream).context("cannot tell the groups of who asks")?;
        let uid = Uid::from_raw(found.uid());
        let name = User::from_uid(uid).ok().flatten().map(|user| user.name);
        Ok(Self { uid, gid: Gid::from_raw(found.gid()), groups, pid: found.pid(), name })
    }

    fn is_in(&self, group: &Group) -> bool {
        self.gid == group.gid || self.groups.contains(&group.gid)
    }
}

fn groups_of(stream: &UnixStream) -> Result<Vec<Gid>, Errno> {
    const SIZE: usize = size_of::<libc::gid_t>();
    let mut groups: Vec<libc::gid_t> = vec![0; 32];
    loop {
        let mut size = (groups.len() * SIZE) as libc::socklen_t;
        // SAFETY: the kernel writes no more than `size` bytes, and there is room for them.
        let done = unsafe {
            let (at, fd) = (groups.as_mut_ptr(), stream.as_raw_fd());
            libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERGROUPS, at.cast(), &mut size)
        };
        // The kernel tells how much there is, even where there is no room for it.
        groups.resize(size as usize / SIZE, 0);
        match Errno::result(done) {
            Err(Errno::ERANGE) => continue,
            Err(error) => return Err(error),
            Ok(_) => return Ok(groups.into_iter().map(Gid::from_raw).collect()),
        }
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
        let is_member = self.group.as_ref().is_some_and(|group| peer.is_in(group));
        if is_member || self.users.contains(&peer.uid) {
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
    use std::ffi::CString;

    use nix::unistd::getgroups;

    use super::*;

    fn peer(uid: u32, groups: &[u32]) -> Peer {
        let mut groups = groups.iter().map(|gid| Gid::from_raw(*gid));
        let gid = groups.next().unwrap();
        Peer { uid: Uid::from_raw(uid), gid, groups: groups.collect(), pid: 7, name: None }
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
        let stranger = peer(54321, &[54321, 54322]);
        assert!(access(&[0], None).check(&peer(0, &[54321])).is_ok());
        let told = access(&[0], None).check(&stranger).unwrap_err();
        assert_eq!(told.to_string(), "only root may ask the scheduler: run it again with sudo");
        assert!(access(&[0], Some(54321)).check(&stranger).is_ok());
        assert!(access(&[0], Some(54322)).check(&stranger).is_ok());
        let told = access(&[0], Some(54323)).check(&stranger).unwrap_err();
        assert_eq!(told.to_string(), "only root and the group operators may ask the scheduler");
    }

    #[test]
    fn a_peer_is_who_the_kernel_says() {
        let (here, _there) = UnixStream::pair().unwrap();
        let peer = Peer::of(&here).unwrap();
        assert_eq!((peer.uid, peer.pid), (Uid::effective(), std::process::id() as i32));
        assert_eq!((peer.gid, &peer.groups), (Gid::effective(), &getgroups().unwrap()));
        assert!(Access::new(None).unwrap().check(&peer).is_ok());
        assert!(peer.to_string().ends_with(&format!("process {})", std::process::id())));
    }

    #[test]
    fn a_group_that_is_not_there_is_refused() {
        let told = Access::new(Some("no such group")).err().unwrap().to_string();
        assert_eq!(told, "there is no group \"no such group\": see --control-group");
    }
}
