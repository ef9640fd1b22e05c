//! Images, audio and blobs of results, saved where the agent finds them: `$HERMES_HOME/cache/mcp/`.

use std::{
    borrow::Cow,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// Larger data is not saved (hermes-behaviour: embedded blobs up to 50 MiB).
const LARGEST: usize = 50 << 20;
/// Bytes of a server's own file name that are kept.
const LONGEST_NAME: usize = 150;

/// Base64 with or without padding.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

use crate::text;

/// A folder for the data of results: files 0600 in folders 0700, names of our own making.
#[derive(Debug)]
pub struct MediaStore {
    root: PathBuf,
    /// Bytes of the largest file.
    largest: usize,
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
    /// It is not what it claims to be: a web page as an image, nothing as a sound.
    #[error("is not what it claims to be ({size} bytes)")]
    NotSuch {
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
        Self {
            root,
            largest: LARGEST,
        }
    }

    /// Saves an image, if the bytes are one: what a model is shown as an image must not be a web page or a drawing with
    /// scripts in it. The bytes decide about the name's ending, not the server's word.
    ///
    /// # Errors
    /// [`MediaError`], and nothing was left behind.
    pub fn image(&self, data: &str, mime: &str) -> Result<Saved, MediaError> {
        let bytes = decode(data, self.largest)?;
        let Some(extension) = image_extension(&bytes) else {
            tracing::debug!(mime, size = bytes.len(), "an image block holds no image");
            return Err(MediaError::NotSuch { size: bytes.len() });
        };
        self.save("images", &format!("img_{}{extension}", unique()), &bytes)
    }

    /// Saves audio.
    ///
    /// # Errors
    /// [`MediaError`], and nothing was left behind.
    pub fn audio(&self, data: &str, mime: &str) -> Result<Saved, MediaError> {
        let bytes = decode(data, self.largest)?;
        if bytes.is_empty() {
            return Err(MediaError::NotSuch { size: 0 });
        }
        self.save(
            "audio",
            &format!("audio_{}{}", unique(), audio_extension(mime)),
            &bytes,
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
            &decode(data, self.largest)?,
        )
    }

    /// Atomic: the name appears with the whole content or not at all.
    fn save(&self, kind: &str, name: &str, bytes: &[u8]) -> Result<Saved, MediaError> {
        let dir = self.root.join(kind);
        make_private(&self.root)?;
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

fn decode(data: &str, largest: usize) -> Result<Vec<u8>, MediaError> {
    // Some servers send what a browser takes.
    let data = data
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(";base64,"))
        .map_or(data, |(_, data)| data);
    let compact: Cow<'_, str> = if data.contains(|c: char| c.is_ascii_whitespace()) {
        data.split_ascii_whitespace().collect::<String>().into()
    } else {
        data.into()
    };
    let size = compact.trim_end_matches('=').len() * 3 / 4;
    if size > largest {
        return Err(MediaError::TooLarge { size });
    }
    let alphabet = if compact.contains(['-', '_']) {
        &URL_SAFE
    } else {
        &BASE64
    };
    alphabet.decode(&*compact).map_err(MediaError::Encoding)
}

/// Makes a folder that only its owner can enter, also where it was there before.
fn make_private(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if fs::metadata(dir)?.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
        }
    }
    Ok(())
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

/// The ending for an image's name by its first bytes; `None` for what is no image.
fn image_extension(bytes: &[u8]) -> Option<&'static str> {
    Some(match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => ".png",
        [0xff, 0xd8, 0xff, ..] => ".jpg",
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => ".gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => ".webp",
        // After the size, four bytes that are zero: a text may begin with BM.
        [b'B', b'M', _, _, _, _, 0, 0, 0, 0, ..] => ".bmp",
        [b'I', b'I', b'*', 0, ..] | [b'M', b'M', 0, b'*', ..] => ".tiff",
        [_, _, _, _, b'f', b't', b'y', b'p', brand @ ..] => match brand.get(..4)? {
            b"avif" | b"avis" => ".avif",
            b"heic" | b"heix" | b"mif1" => ".heic",
            _ => return None,
        },
        _ => return None,
    })
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
    let name: String = text::one_line(&percent_decoded(last))
        .chars()
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
        name => name[..name.floor_char_boundary(LONGEST_NAME)]
            .trim_end()
            .to_owned(),
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
                Err(MediaError::NotSuch { .. })
            ));
        }
        assert!(matches!(
            store.audio("not base64!", "audio/wav"),
            Err(MediaError::Encoding(_))
        ));
    }

    #[test]
    fn base64_may_lack_padding_have_line_ends_or_come_from_an_address() {
        let (_dir, store) = store();
        let unpadded = BASE64.encode(PNG).trim_end_matches('=').to_owned();
        let broken = format!("{}\r\n{}", &unpadded[..8], &unpadded[8..]);
        let address = format!("data:image/png;base64,{unpadded}");
        let url_safe = unpadded.replace('+', "-").replace('/', "_");
        for data in [unpadded, broken, address, url_safe] {
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
            ("x://a/%e2%80%aegpj.exe", "gpj.exe"),
            (r"C:\dir\a.txt", "a.txt"),
        ] {
            assert_eq!(file_name(uri), expected, "{uri}");
        }
        assert!(file_name(&"é".repeat(200)).len() <= LONGEST_NAME);
    }

    #[test]
    fn an_image_is_named_by_its_bytes_and_a_sound_by_its_type() {
        for (bytes, extension) in [
            (&b"\x89PNG\r\n\x1a\n"[..], Some(".png")),
            (b"\xff\xd8\xff\xe0", Some(".jpg")),
            (b"GIF89a..", Some(".gif")),
            (b"RIFF\0\0\0\0WEBPVP8 ", Some(".webp")),
            (b"RIFF\0\0\0\0WAVEfmt ", None),
            (b"BM\x1a\0\0\0\0\0\0\0\x1a\0", Some(".bmp")),
            (b"BMW is a car", None),
            (b"\0\0\0\x20ftypavif", Some(".avif")),
            (b"\0\0\0\x20ftypisom", None),
            (b"<svg/>", None),
            (b"", None),
        ] {
            assert_eq!(image_extension(bytes), extension, "{bytes:?}");
        }
        assert_eq!(
            (audio_extension("audio/wav; rate=8000"), audio_extension("x")),
            (".wav", ".ogg")
        );
    }

    /// Hermes' limit is 50 MiB, and that size itself is allowed.
    #[test]
    fn the_limit_is_exact() {
        let (_dir, mut store) = store();
        assert_eq!(store.largest, 50 << 20);
        store.largest = 1_000;
        for size in [998, 999, 1_000] {
            assert_eq!(
                store.document(&BASE64.encode(vec![0; size]), "x").unwrap().size,
                size
            );
        }
        let more = BASE64.encode(vec![0; 1_001]);
        assert!(matches!(
            store.document(&more, "x"),
            Err(MediaError::TooLarge { size: 1_001 })
        ));
        let endless = "A".repeat(10_000);
        assert!(matches!(
            store.audio(&endless, "x"),
            Err(MediaError::TooLarge { .. })
        ));
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_others_could_enter_is_closed() {
        use std::os::unix::fs::PermissionsExt;
        let (dir, store) = store();
        let images = dir.path().join("cache/mcp/images");
        fs::create_dir_all(&images).unwrap();
        for folder in [images.parent().unwrap(), images.as_path()] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        }
        store.image(&BASE64.encode(PNG), "image/png").unwrap();
        for folder in [images.parent().unwrap(), images.as_path()] {
            assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }
}
