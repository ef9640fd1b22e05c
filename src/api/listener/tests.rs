//! The listener in one process. What needs another process, umask or user is in `tests/socket_listener.rs`.

use std::{
    fs::{self, Permissions},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    process::{Command, Stdio},
};

use super::*;
use crate::paths::Origin;

/// A private temporary folder.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(private_folder())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// A path that the user chose.
    fn socket(&self, path: &str) -> SocketPath {
        SocketPath::new(&self.at(path), Origin::Option).unwrap()
    }

    fn folder(&self, path: &str, mode: u32) -> PathBuf {
        let folder = self.at(path);
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        folder
    }
}

/// A temporary folder of mode 0700, whatever the umask.
pub(super) fn private_folder() -> tempfile::TempDir {
    tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

#[tokio::test]
async fn a_frontend_is_let_in_and_known() {
    let place = Place::new();
    let socket = place.socket("a/b/x.sock");
    let listener = Listener::bind(&socket).await.unwrap();
    assert_eq!(listener.path(), &*socket);
    assert_eq!(mode(&socket), 0o600);
    assert_eq!(mode(&place.at("a")), 0o700);
    assert_eq!(mode(&place.at("a/b")), 0o700);
    assert_eq!(mode(&place.at("a/b/x.sock.lock")), 0o600);

    let _client = UnixStream::connect(&socket).unwrap();
    let connection = listener.accept().await;
    assert_eq!(connection.peer.uid, rustix::process::geteuid().as_raw());
    if cfg!(target_os = "linux") {
        assert_eq!(connection.peer.pid, Some(std::process::id()));
    }
    drop(listener);
    assert!(!socket.exists());
    assert!(
        place.at("a/b/x.sock.lock").exists(),
        "the lock file is never removed"
    );
}

#[tokio::test]
async fn b73_a_second_daemon_says_who_runs_and_changes_nothing() {
    let place = Place::new();
    let socket = place.socket("x.sock");
    let listener = Listener::bind(&socket).await.unwrap();
    let before = inode(&socket);
    let error = Listener::bind(&socket).await.unwrap_err();
    assert!(
        matches!(error, ListenError::AlreadyRunning { pid, .. } if pid == std::process::id()),
        "{error}"
    );
    assert_eq!(inode(&socket), before);
    let _client = UnixStream::connect(&socket).unwrap();
    listener.accept().await;
}

#[tokio::test]
async fn b73_twenty_starts_at_once_make_one_daemon() {
    let place = Place::new();
    let socket = place.socket("new/x.sock");
    let starts = futures_util::future::join_all((0..20).map(|_| Listener::bind(&socket))).await;
    let (listening, refused): (Vec<_>, Vec<_>) = starts.into_iter().partition(Result::is_ok);
    assert_eq!(listening.len(), 1);
    for error in refused.into_iter().filter_map(Result::err) {
        assert!(matches!(error, ListenError::AlreadyRunning { .. }), "{error}");
    }
    let _client = UnixStream::connect(&socket).unwrap();
    listening[0].as_ref().unwrap().accept().await;
}

#[tokio::test]
async fn b73_a_dead_socket_is_replaced() {
    let place = Place::new();
    let socket = place.socket("x.sock");
    drop(UnixListener::bind(&socket).unwrap());
    // A child that another test is starting has its descriptor until it executes its program.
    while UnixStream::connect(&socket).is_ok() {}
    let listener = Listener::bind(&socket).await.unwrap();
    let _client = UnixStream::connect(&socket).unwrap();
    listener.accept().await;
}

#[tokio::test]
async fn a_socket_that_somebody_listens_on_is_never_replaced() {
    let place = Place::new();
    let socket = place.socket("x.sock");
    let unit = UnixListener::bind(&socket).unwrap();
    let before = inode(&socket);
    let error = Listener::bind(&socket).await.unwrap_err();
    assert!(matches!(error, ListenError::InUse { .. }), "{error}");
    assert_eq!(inode(&socket), before);

    // A full queue answers EAGAIN, and must not count as dead either.
    rustix::net::listen(&unit, 0).unwrap();
    while tokio::net::UnixStream::connect(&socket)
        .await
        .map(std::mem::forget)
        .is_ok()
    {}
    let error = Listener::bind(&socket).await.unwrap_err();
    assert!(matches!(error, ListenError::InUse { .. }), "{error}");
}

#[tokio::test]
async fn whatever_is_no_socket_of_ours_stays() {
    let place = Place::new();
    fs::write(place.at("file"), "precious").unwrap();
    fs::create_dir(place.at("folder")).unwrap();
    symlink("file", place.at("link")).unwrap();
    symlink("nothing", place.at("dangling")).unwrap();
    for (name, what) in [
        ("file", "is a file, not a socket"),
        ("folder", "is a folder, not a socket"),
        ("link", "is a symbolic link, not a socket"),
        ("dangling", "is a symbolic link, not a socket"),
    ] {
        let before = inode(&place.at(name));
        let error = Listener::bind(&place.socket(name)).await.unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
        assert_eq!(error.exit_code(), 78);
        assert_eq!(inode(&place.at(name)), before);
    }
    assert_eq!(fs::read_to_string(place.at("file")).unwrap(), "precious");
    assert!(!place.at("nothing").exists());
}

#[tokio::test]
async fn only_the_socket_that_was_bound_is_removed() {
    let place = Place::new();
    let socket = place.socket("x.sock");
    let listener = Listener::bind(&socket).await.unwrap();
    fs::remove_file(&socket).unwrap();
    let _other = UnixListener::bind(&socket).unwrap();
    drop(listener);
    assert!(socket.exists(), "another's socket stays");
}

#[tokio::test]
async fn b66_a_folder_that_others_can_change_is_refused_and_left_as_it_is() {
    let place = Place::new();
    place.folder("open", 0o777);
    place.folder("sticky", 0o1777);
    place.folder("group", 0o770);
    place.folder("readable", 0o755);
    place.folder("above", 0o777);
    place.folder("above/mine", 0o700);
    place.folder("tmp", 0o1777);
    place.folder("tmp/mine", 0o700);
    symlink("readable", place.at("link")).unwrap();
    fs::write(place.at("file"), "").unwrap();

    let cases = [
        (
            "open",
            Origin::Option,
            Some("'FOLDER' can be changed by other users (mode 0777)"),
        ),
        (
            "sticky",
            Origin::Option,
            Some("'FOLDER' can be changed by other users (mode 1777)"),
        ),
        (
            "group",
            Origin::Option,
            Some("'FOLDER' can be changed by other users (mode 0770)"),
        ),
        ("readable", Origin::Option, None),
        (
            "readable",
            Origin::HermesHome,
            Some("lets other users in (mode 0755); run: chmod 700 'FOLDER'"),
        ),
        (
            "above/mine",
            Origin::HermesHome,
            Some("/above' lies above the socket"),
        ),
        ("tmp/mine", Origin::HermesHome, None),
        ("link", Origin::Option, Some("'FOLDER' is a symbolic link")),
        (
            "file",
            Origin::Option,
            Some("cannot use the socket folder 'FOLDER'"),
        ),
    ];
    for (name, origin, refusal) in cases {
        let folder = place.at(name);
        let before = mode(&folder);
        let socket = SocketPath::new(&folder.join("x.sock"), origin).unwrap();
        let bound = Listener::bind(&socket).await;
        match refusal {
            None => assert_eq!(bound.map(|_| mode(&folder)).unwrap(), before, "{name}"),
            Some(text) => {
                let error = bound.unwrap_err().to_string();
                let text = text.replace("FOLDER", folder.to_str().unwrap());
                assert!(error.contains(&text), "{error:?} has {text:?}");
                assert!(!folder.join("x.sock").exists());
            }
        }
        assert_eq!(mode(&folder), before, "{name}");
    }
}

#[tokio::test]
async fn closing_removes_the_path_and_keeps_the_lock() {
    let place = Place::new();
    let socket = place.socket("x.sock");
    let lock = Listener::bind(&socket).await.unwrap().close();
    assert!(!socket.exists());
    let error = Listener::bind(&socket).await.unwrap_err();
    assert!(matches!(error, ListenError::AlreadyRunning { .. }), "{error}");
    drop(lock);
    Listener::bind(&socket).await.unwrap();
}

#[tokio::test]
async fn the_lock_lives_on_in_a_child_that_was_given_it() {
    let place = Place::new();
    let socket = place.socket("x.sock");
    let listener = Listener::bind(&socket).await.unwrap();
    let lock = listener.lock_fd().try_clone_to_owned().unwrap();
    let mut watch = Command::new("sleep")
        .arg("60")
        .stdin(Stdio::from(lock))
        .spawn()
        .unwrap();
    let mut bystander = Command::new("sleep").arg("60").spawn().unwrap();
    drop(listener);

    let next = Listener::bind(&socket);
    tokio::pin!(next);
    tokio::select! {
        biased;
        result = &mut next => panic!("the lock was free: {result:?}"),
        () = std::future::ready(()) => {}
    }
    watch.kill().unwrap();
    watch.wait().unwrap();
    next.await.unwrap();
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[tokio::test]
async fn an_activation_socket_is_served_locked_and_never_removed() {
    let place = Place::new();
    let socket = place.socket("x.sock");
    let unit = UnixListener::bind(&socket).unwrap();
    let listener = Listener::from_activation(unit.try_clone().unwrap().into())
        .await
        .unwrap();
    assert_eq!(listener.path(), &*socket);
    let _client = UnixStream::connect(&socket).unwrap();
    listener.accept().await;

    let error = Listener::bind(&socket).await.unwrap_err();
    assert!(matches!(error, ListenError::AlreadyRunning { .. }), "{error}");
    drop(listener);
    assert!(socket.exists());
}

#[tokio::test]
async fn an_activation_socket_of_another_kind_is_refused() {
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (pair, _other) = UnixStream::pair().unwrap();
    let file = tempfile::tempfile().unwrap();
    for (fd, why) in [
        (tcp.into(), "it is no Unix socket"),
        (pair.into(), "it is no listening socket"),
        (file.into(), "it is no listening socket"),
    ] {
        let error = Listener::from_activation(fd).await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}
