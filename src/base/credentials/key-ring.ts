/**
 * Reads, creates and rotates the key ring: the keys that encrypt secrets and backups, and sign
 * evidence. They are in one JSON file outside the database, newest first. The newest key encrypts
 * and signs; older keys still decrypt and verify.
 */
import { createPrivateKey, createPublicKey, hkdfSync, type KeyObject, randomBytes } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { type Clock, now } from '../clock.ts';
import { SettingsError } from '../settings/flag-values.ts';

export interface RingKey {
  kid: string;
  created_at: string;
  secret: Buffer;
}

export interface KeyRing {
  /** The file's path, for messages about copying or restoring it. */
  readonly path: string;
  /** The key that encrypts and signs. */
  readonly current: RingKey;
  /** All keys, newest first; each of them decrypts and verifies. */
  readonly all: readonly RingKey[];
  byId(kid: string): RingKey | undefined;
}

/** The use of a key that is derived from a key of the ring. Two purposes never share a key. */
export type KeyPurpose = 'secrets' | 'evidence' | 'backups';

const secretBytes = 32;
const privateMode = 0o600;
/** DER prefix of an Ed25519 private key (RFC 8410), before its 32-byte seed. */
const ed25519Prefix = Buffer.from('302e020100300506032b657004220420', 'hex');

const isMissing = (error: unknown) => error instanceof Error && 'code' in error && error.code === 'ENOENT';
const isAlreadyThere = (error: unknown) => error instanceof Error && 'code' in error && error.code === 'EEXIST';

interface StoredKey {
  kid: string;
  created_at: string;
  secret: string;
}

const isStoredKey = (value: unknown): value is StoredKey => {
  if (typeof value !== 'object' || value === null) return false;
  const { kid, created_at, secret } = value as Record<string, unknown>;
  return (
    typeof kid === 'string' &&
    kid !== '' &&
    typeof created_at === 'string' &&
    typeof secret === 'string' &&
    Buffer.from(secret, 'base64').length === secretBytes
  );
};

function parseKeys(path: string, text: string): RingKey[] {
  let keys: unknown;
  try {
    keys = (JSON.parse(text) as { keys?: unknown }).keys;
  } catch {
    throw new SettingsError(`${path} is not a key file: it is not JSON. Restore it from your backup.`);
  }
  if (!Array.isArray(keys) || keys.length === 0 || !keys.every(isStoredKey))
    throw new SettingsError(
      `${path} is not a key file: it has no keys, or one of them is invalid. Restore it from your backup.`,
    );
  return keys.map(({ kid, created_at, secret }) => ({ kid, created_at, secret: Buffer.from(secret, 'base64') }));
}

function requirePrivateMode(path: string, mode: number): void {
  if ((mode & 0o077) !== 0) throw new SettingsError(`${path} can be read by others. Run: chmod 600 ${path}`);
}

function newKey(clock: Clock): StoredKey {
  return {
    kid: `key_${randomBytes(8).toString('hex')}`,
    created_at: now(clock).toISOString(),
    secret: randomBytes(secretBytes).toString('base64'),
  };
}

/** Writes a complete, synced file beside `path` and returns its name. */
function writeBeside(path: string, keys: StoredKey[]): string {
  const temporaryPath = `${path}.${randomBytes(6).toString('hex')}`;
  const file = openSync(temporaryPath, 'wx', privateMode);
  try {
    writeFileSync(file, `${JSON.stringify({ keys }, null, 2)}\n`);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  return temporaryPath;
}

function syncDirectoryOf(path: string): void {
  const directory = openSync(dirname(path), 'r');
  try {
    fsyncSync(directory);
  } finally {
    closeSync(directory);
  }
}

/** If two servers create the file at once, both use the key of the first. */
function createFile(path: string, clock: Clock): void {
  let temporaryPath: string;
  try {
    mkdirSync(dirname(path), { recursive: true });
    temporaryPath = writeBeside(path, [newKey(clock)]);
  } catch (error) {
    throw new SettingsError(
      `the key file ${path} does not exist and cannot be created: ${error instanceof Error ? error.message : error}. Name an existing file with --key-file, or a --data-dir that can be written.`,
    );
  }
  try {
    linkSync(temporaryPath, path);
    syncDirectoryOf(path);
  } catch (error) {
    if (!isAlreadyThere(error)) throw error;
  } finally {
    unlinkSync(temporaryPath);
  }
}

/** Returns the keys of an existing file, newest first. */
export function readKeyFile(path: string): RingKey[] {
  requirePrivateMode(path, statSync(path).mode);
  return parseKeys(path, readFileSync(path, 'utf8'));
}

/**
 * Opens the key file, creating it with one key if missing. Picks up later rotations without a
 * restart.
 */
export function openKeyRing(path: string, clock: Clock): KeyRing {
  let version = '';
  let keys: readonly RingKey[] = [];
  const read = (): readonly RingKey[] => {
    const { mtimeMs, ino, size } = statSync(path);
    const currentVersion = `${mtimeMs} ${ino} ${size}`;
    if (currentVersion === version) return keys;
    keys = readKeyFile(path);
    version = currentVersion;
    return keys;
  };
  try {
    read();
  } catch (error) {
    if (!isMissing(error)) throw error;
    createFile(path, clock);
    read();
  }
  const refresh = (): readonly RingKey[] => {
    try {
      return read();
    } catch {
      // The file was damaged or moved; keep the keys already loaded.
      return keys;
    }
  };
  return {
    path,
    get current() {
      return refresh()[0] as RingKey;
    },
    get all() {
      return refresh();
    },
    byId: (kid) => refresh().find((key) => key.kid === kid),
  };
}

/** Adds a key, which becomes the current one, and returns its id. */
export function rotateKeyRing(path: string, clock: Clock): string {
  const oldKeys = readKeyFile(path).map((key) => ({ ...key, secret: key.secret.toString('base64') }));
  const key = newKey(clock);
  renameSync(writeBeside(path, [key, ...oldKeys]), path);
  syncDirectoryOf(path);
  return key.kid;
}

export const deriveKey = ({ secret }: RingKey, purpose: KeyPurpose): Buffer =>
  Buffer.from(hkdfSync('sha256', secret, Buffer.alloc(0), `slipway ${purpose}`, secretBytes));

export interface SigningKey {
  kid: string;
  private_key: KeyObject;
  public_key: KeyObject;
}

/** Derives an Ed25519 key pair; the same ring key and purpose always give the same pair. */
export function signingKeyOf(key: RingKey, purpose: KeyPurpose): SigningKey {
  const private_key = createPrivateKey({
    key: Buffer.concat([ed25519Prefix, deriveKey(key, purpose)]),
    format: 'der',
    type: 'pkcs8',
  });
  return { kid: key.kid, private_key, public_key: createPublicKey(private_key) };
}
