//! Images, audio and blobs of results, saved where the agent finds them: `$HERMES_HOME/cache/mcp/`.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// Larger data is not saved (hermes-behaviour: embedded blobs up to 50 MiB).
const LARGEST: usize = 50 << 20;
/// Bytes of a server's own file name that are kept.
const LONGEST_NAME: usize = 150;

/// Standard base64, with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// A folder for the data of results: files 0600 in folders 0700, names of our own making.
#[derive(Debug)]
pub struct MediaStore {
    root: PathBuf,
}

/// Why data was not saved.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// It is not base64.
    #[error("could not be decoded: {0}")]
    Encoding(base64::DecodeError),
    /// It is too large.
    #[error("too large to cache: {size} bytes")]
    TooLarge {
        /// Its size.
        size: usize,
    },
    /// It is not what its type says.
    #[error("could not be cached")]
    NotAnImage {
        /// Its size.
        size: usize,
    },
    /// The system refuses.
    #[error("could not be saved: {0}")]
    Io(#[from] io::Error),
}

/// Data that was saved.
#[derive(Debug)]
pub struct Saved {
    /// The file.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: usize,
}

impl MediaStore {
    /// Saves under this folder, which is made when it is needed.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Saves an image, if the bytes are one: what a model is shown as an image must not be a web page.
    ///
    /// # Errors
    /// [`MediaError`], and nothing was left behind.
    pub fn image(&self, data: &str, mime: &str) -> Result<Saved, MediaError> {
        let bytes = decode(data)?;
        if !is_image(&bytes) {
            return Err(MediaError::NotAnImage { size: bytes.len() });
        }
        self.save(
            "images",
            &format!("img_{}{}", unique(), image_extension(mime)),
            &bytes,
        )
    }

    /// Saves audio.
    ///
    /// # Errors
    /// [`MediaError`].
    pub fn audio(&self, data: &str, mime: &str) -> Result<Saved, MediaError> {
        self.save(
            "audio",
            &format!("audio_{}{}", unique(), audio_extension(mime)),
            &decode(data)?,
        )
    }

    /// Saves an embedded resource. Of its URI only the last part goes into the name, and only as text.
    ///
    /// # Errors
    /// [`MediaError`].
    pub fn document(&self, data: &str, uri: &str) -> Result<Saved, MediaError> {
        self.save(
            "documents",
            &format!("doc_{}_{}", unique(), file_name(uri)),
            &decode(data)?,
        )
    }

    /// Atomic: the name appears with the whole content or not at all.
    fn save(&self, kind: &str, name: &str, bytes: &[u8]) -> Result<Saved, MediaError> {
        let dir = self.root.join(kind);
        make_private(&dir)?;
        let path = dir.join(name);
        let unfinished = dir.join(format!(".{name}.part"));
        let written = write_private(&unfinished, bytes).and_then(|()| fs::rename(&unfinished, &path));
        if let Err(error) = written {
            // Best effort: the error to tell is the first one.
            let _ = fs::remove_file(&unfinished);
            return Err(error.into());
        }
        Ok(Saved {
            path,
            size: bytes.len(),
        })
    }
}

fn decode(data: &str) -> Result<Vec<u8>, MediaError> {
    let size = data.len() / 4 * 3;
    if size > LARGEST {
        return Err(MediaError::TooLarge { size });
    }
    if data.contains(|c: char| c.is_ascii_whitespace()) {
        let compact: String = data.split_ascii_whitespace().collect();
        return BASE64.decode(compact).map_err(MediaError::Encoding);
    }
    BASE64.decode(data).map_err(MediaError::Encoding)
}

fn make_private(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}

/// Twelve hexadecimal digits.
fn unique() -> String {
    format!("{:012x}", fastrand::u64(..1 << 48))
}

fn is_image(bytes: &[u8]) -> bool {
    let starts = |magic: &[u8]| bytes.starts_with(magic);
    starts(b"\x89PNG\r\n\x1a\n")
        || starts(b"\xff\xd8\xff")
        || starts(b"GIF87a")
        || starts(b"GIF89a")
        || starts(b"BM")
        || starts(b"II*\0")
        || starts(b"MM\0*")
        || (starts(b"RIFF") && bytes.get(8..12) == Some(b"WEBP"))
        || (bytes.get(4..8) == Some(b"ftyp")
            && matches!(bytes.get(8..12), Some(b"avif" | b"heic" | b"heix" | b"mif1")))
}

fn image_extension(mime: &str) -> &'static str {
    match essence(mime) {
        "image/jpeg" | "image/jpg" => ".jpg",
        "image/gif" => ".gif",
        "image/webp" => ".webp",
        "image/bmp" => ".bmp",
        "image/tiff" => ".tiff",
        "image/avif" => ".avif",
        "image/heic" => ".heic",
        _ => ".png",
    }
}

fn audio_extension(mime: &str) -> &'static str {
    match essence(mime) {
        "audio/wav" | "audio/x-wav" | "audio/wave" => ".wav",
        "audio/mpeg" | "audio/mp3" => ".mp3",
        "audio/mp4" | "audio/x-m4a" | "audio/m4a" | "audio/aac" => ".m4a",
        "audio/flac" | "audio/x-flac" => ".flac",
        "audio/webm" => ".webm",
        _ => ".ogg",
    }
}

/// A media type without its parameters.
fn essence(mime: &str) -> &str {
    mime.split(';').next().unwrap_or_default().trim()
}

fn file_name(uri: &str) -> String {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let last = path
        .trim_end_matches('/')
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or_default();
    let name: String = percent_decoded(last)
        .chars()
        .filter(|c| !c.is_control())
        .map(|c| {
            if matches!(c, '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|') {
                '_'
            } else {
                c
            }
        })
        .collect();
    let name = name.trim_matches(|c: char| c == '.' || c.is_whitespace());
    match name {
        "" => "resource".into(),
        name => name[..name.floor_char_boundary(LONGEST_NAME)].to_owned(),
    }
}

fn percent_decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|hex| std::str::from_utf8(hex).ok());
        match digits.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &tail[2..];
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";

    fn store() -> (tempfile::TempDir, MediaStore) {
        let dir = tempfile::tempdir().unwrap();
        let store = MediaStore::new(dir.path().join("cache/mcp"));
        (dir, store)
    }

    #[test]
    fn an_image_is_saved_privately_whole_and_under_a_name_of_ours() {
        let (dir, store) = store();
        let saved = store.image(&BASE64.encode(PNG), "image/png").unwrap();
        assert_eq!(fs::read(&saved.path).unwrap(), PNG);
        assert_eq!(saved.path.parent().unwrap(), dir.path().join("cache/mcp/images"));
        let name = saved.path.file_name().unwrap().to_str().unwrap();
        assert!(
            name.len() == "img_.png".len() + 12 && name.starts_with("img_") && name.ends_with(".png"),
            "{name}"
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(
                (mode(&saved.path), mode(saved.path.parent().unwrap())),
                (0o600, 0o700)
            );
        }
        assert_eq!(
            fs::read_dir(saved.path.parent().unwrap()).unwrap().count(),
            1,
            "nothing unfinished is left"
        );
    }

    #[test]
    fn what_is_no_image_or_no_base64_is_refused() {
        let (_dir, store) = store();
        for data in [
            BASE64.encode("<svg></svg>"),
            BASE64.encode("<html>"),
            String::new(),
        ] {
            assert!(matches!(
                store.image(&data, "image/svg+xml"),
                Err(MediaError::NotAnImage { .. })
            ));
        }
        assert!(matches!(
            store.audio("not base64!", "audio/wav"),
            Err(MediaError::Encoding(_))
        ));
        let large = "A".repeat((LARGEST / 3 + 2) * 4);
        assert!(matches!(
            store.document(&large, "x"),
            Err(MediaError::TooLarge { .. })
        ));
    }

    #[test]
    fn base64_may_lack_padding_and_have_line_ends() {
        let (_dir, store) = store();
        let unpadded = BASE64.encode(PNG).trim_end_matches('=').to_owned();
        let broken = format!("{}\r\n{}", &unpadded[..8], &unpadded[8..]);
        for data in [unpadded, broken] {
            assert_eq!(
                fs::read(store.image(&data, "image/png").unwrap().path).unwrap(),
                PNG
            );
        }
    }

    #[test]
    fn a_servers_name_never_leaves_the_folder() {
        for (uri, expected) in [
            ("res://a/b%20c.pdf", "b c.pdf"),
            ("file:///etc/passwd", "passwd"),
            ("x://a/..%2f..%2fetc%2fpasswd", "_.._etc_passwd"),
            ("x://a/..", "resource"),
            ("", "resource"),
            ("x://a/na%00me%0a?q#f", "name"),
            ("x://a/é.txt", "é.txt"),
        ] {
            assert_eq!(file_name(uri), expected, "{uri}");
        }
        assert!(file_name(&"é".repeat(200)).len() <= LONGEST_NAME);
    }

    #[test]
    fn extensions_follow_the_type() {
        assert_eq!(
            (image_extension("image/jpeg; q=1"), image_extension("x")),
            (".jpg", ".png")
        );
        assert_eq!(
            (audio_extension("audio/wav"), audio_extension("x")),
            (".wav", ".ogg")
        );
    }
}
