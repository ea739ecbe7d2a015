-- The registry of artifacts. Blobs are files beside the database; everything else about them is here.
CREATE TABLE registry_repositories (
  name       TEXT NOT NULL PRIMARY KEY,
  created_at INTEGER NOT NULL
) STRICT;

-- One row for each file of a blob. The file is there before its row, and is removed after it.
CREATE TABLE registry_blobs (
  digest    TEXT NOT NULL PRIMARY KEY, -- sha256:<hex> or sha512:<hex>
  size      INTEGER NOT NULL,
  stored_at INTEGER NOT NULL
) STRICT;

-- Which repository has which blob.
CREATE TABLE registry_links (
  repository TEXT NOT NULL,
  digest     TEXT NOT NULL,
  used_at    INTEGER NOT NULL, -- when it was pushed, mounted or asked for while no manifest named it
  PRIMARY KEY (repository, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX registry_links_digest ON registry_links(digest);

CREATE TABLE registry_manifests (
  number        INTEGER PRIMARY KEY,
  repository    TEXT NOT NULL,
  digest        TEXT NOT NULL,
  media_type    TEXT NOT NULL,
  size          INTEGER NOT NULL, -- bytes of the body
  subject       TEXT NOT NULL,    -- digest of the manifest that it refers to; '' none
  artifact_type TEXT NOT NULL,    -- as referrers are listed; '' none
  annotations   TEXT NOT NULL,    -- JSON object; as referrers are listed
  pushed_at     INTEGER NOT NULL,
  pushed_by     TEXT NOT NULL,
  body          TEXT NOT NULL,    -- base64 of the exact bytes
  UNIQUE (repository, digest)
) STRICT;
CREATE INDEX registry_manifests_subject ON registry_manifests(repository, subject, digest) WHERE subject <> '';
CREATE INDEX registry_manifests_size ON registry_manifests(size); -- the sum of all is asked for often, and must not read the bodies

-- What a manifest needs: its config and layers, or the manifests of an index. They need not be there.
CREATE TABLE registry_names (
  repository TEXT NOT NULL,
  manifest   TEXT NOT NULL,
  digest     TEXT NOT NULL,
  PRIMARY KEY (repository, manifest, digest)
) STRICT, WITHOUT ROWID;
CREATE INDEX registry_names_digest ON registry_names(repository, digest);

CREATE TABLE registry_tags (
  repository TEXT NOT NULL,
  tag        TEXT NOT NULL,
  digest     TEXT NOT NULL,
  PRIMARY KEY (repository, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX registry_tags_digest ON registry_tags(repository, digest);

-- Manifests that must stay, with what they need.
CREATE TABLE registry_holds (
  holder     TEXT NOT NULL,
  repository TEXT NOT NULL,
  digest     TEXT NOT NULL,
  PRIMARY KEY (holder, repository, digest)
) STRICT, WITHOUT ROWID;
