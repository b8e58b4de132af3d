/**
 * The file format of a backup: a readable header, then chunks encrypted with AES-256-GCM. Each file
 * has its own key, derived from a key of the key file, a random salt and the header, so no chunk
 * opens under a changed header. The nonce of a chunk is its position and whether it is the last, so
 * chunks cannot be dropped, repeated or moved.
 */
import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';
import { deriveKey, type RingKey } from '../../base/credentials/key-ring.ts';
import { ByteReader } from './byte-reader.ts';
import { BackupRefused, damagedError, truncatedError } from './refusal.ts';

export const formatVersion = 1;
const magic = Buffer.from('SLIPWAY BACKUP\n');
const cipher = 'aes-256-gcm';
const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;
const lengthBytes = 4;
const chunkBytes = 256 * 1024;
const maxHeaderBytes = 64 * 1024;

/** The part of a backup that can be read without its key. */
export interface BackupHeader {
  format: number;
  backup_id: string;
  slipway_version: string;
  /** The migrations of our schema that the database had. */
  schema_versions: number[];
  /** The version of the engine's schema; 0 if the database had none. */
  engine_schema: number;
  /** The moment of the snapshot, by the clock of the database. */
  taken_at: string;
  installation_id: string | null;
  postgres_version: string;
  /** The id of the key in the key file. */
  kid: string;
  salt: string;
}

export type NewHeader = Omit<BackupHeader, 'format' | 'kid' | 'salt'>;

function deriveFileKey(key: RingKey, header: Buffer, salt: string): Buffer {
  const info = Buffer.concat([Buffer.from('slipway backup '), createHash('sha256').update(header).digest()]);
  return Buffer.from(hkdfSync('sha256', deriveKey(key, 'backups'), Buffer.from(salt, 'base64'), info, keyBytes));
}

function createNonce(position: number, isLast: boolean): Buffer {
  const nonce = Buffer.alloc(nonceBytes);
  nonce.writeUInt8(isLast ? 1 : 0, 0);
  nonce.writeBigUInt64BE(BigInt(position), nonceBytes - 8);
  return nonce;
}

const encodeUint32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(lengthBytes);
  bytes.writeUInt32BE(value);
  return bytes;
};

function sealChunk(key: Buffer, plain: Buffer, position: number, isLast: boolean): Buffer {
  const encrypt = createCipheriv(cipher, key, createNonce(position, isLast));
  const sealed = Buffer.concat([encrypt.update(plain), encrypt.final(), encrypt.getAuthTag()]);
  return Buffer.concat([encodeUint32(sealed.length), sealed]);
}

/** Returns the bytes of the whole file: the header, and `content` in encrypted chunks. */
export async function* sealFile(
  content: AsyncIterable<Buffer>,
  { header, key }: { header: NewHeader; key: RingKey },
): AsyncGenerator<Buffer> {
  const salt = randomBytes(keyBytes).toString('base64');
  const complete: BackupHeader = { format: formatVersion, ...header, kid: key.kid, salt };
  const headerText = Buffer.from(JSON.stringify(complete));
  yield Buffer.concat([magic, encodeUint32(headerText.length), headerText]);
  const fileKey = deriveFileKey(key, headerText, salt);
  const reader = new ByteReader(content);
  let chunk = await reader.read(chunkBytes);
  for (let position = 0; ; position++) {
    const next = await reader.read(chunkBytes);
    yield sealChunk(fileKey, chunk, position, next.length === 0);
    if (next.length === 0) return;
    chunk = next;
  }
}

const isHeader = (value: unknown): value is BackupHeader => {
  const header = value as Partial<BackupHeader> | null;
  return (
    typeof header === 'object' &&
    header !== null &&
    typeof header.kid === 'string' &&
    typeof header.salt === 'string' &&
    typeof header.backup_id === 'string' &&
    typeof header.taken_at === 'string' &&
    typeof header.slipway_version === 'string' &&
    typeof header.engine_schema === 'number' &&
    Array.isArray(header.schema_versions) &&
    header.schema_versions.every((version) => Number.isInteger(version))
  );
};

function parseHeader(text: Buffer): BackupHeader {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text.toString());
  } catch {
    throw damagedError('Its header is not JSON.');
  }
  const { format, slipway_version } = (parsed ?? {}) as Partial<BackupHeader>;
  if (typeof format === 'number' && format > formatVersion)
    throw new BackupRefused('format_newer', 'The backup has a newer format', {
      why: `It has format ${format}, and this Slipway reads up to format ${formatVersion}.`,
      remedy: `Use Slipway ${slipway_version ?? 'of the version that made it'} or newer.`,
    });
  if (!isHeader(parsed)) throw damagedError('Its header lacks a field.');
  return parsed;
}

export interface OpenedFile {
  header: BackupHeader;
  /** Decrypts the chunks. Throws at the first that is not authentic, or if the last is missing. */
  content(keys: { path: string; all: readonly RingKey[] }): AsyncGenerator<Buffer>;
  close(): Promise<void>;
}

/** Reads the header, which stays unauthenticated until the first chunk is decrypted. */
export async function openFile(bytes: AsyncIterable<Buffer>): Promise<OpenedFile> {
  const reader = new ByteReader(bytes);
  const readLength = async () => {
    const length = await reader.read(lengthBytes);
    if (length.length < lengthBytes) throw truncatedError();
    return length.readUInt32BE();
  };
  const readWhole = async (length: number) => {
    const read = await reader.read(length);
    if (read.length < length) throw truncatedError();
    return read;
  };
  const readHeader = async () => {
    const start = await reader.read(magic.length);
    if (!start.equals(magic))
      throw new BackupRefused('not_a_backup', 'This is not a backup of Slipway', {
        why: 'The file does not begin as a backup does.',
        remedy: 'Name a file that slipway backup wrote.',
      });
    const headerLength = await readLength();
    if (headerLength > maxHeaderBytes) throw damagedError('Its header is too long.');
    const headerText = Buffer.from(await readWhole(headerLength));
    return { headerText, header: parseHeader(headerText) };
  };
  const { headerText, header } = await readHeader().catch(async (error) => {
    await reader.close();
    throw error;
  });

  async function* content(keys: { path: string; all: readonly RingKey[] }): AsyncGenerator<Buffer> {
    const ringKey = keys.all.find(({ kid }) => kid === header.kid);
    if (!ringKey)
      throw new BackupRefused('key_missing', 'The key file cannot open this backup', {
        why: `The backup is encrypted with ${header.kid}, which ${keys.path} does not have.`,
        remedy: 'With --key-file, name the key file of the server that made the backup.',
      });
    const key = deriveFileKey(ringKey, headerText, header.salt);
    for (let position = 0; ; position++) {
      const length = await readLength();
      if (length < tagBytes || length > chunkBytes + tagBytes)
        throw damagedError(`Chunk ${position} has a wrong length.`);
      const sealed = await readWhole(length);
      const decrypt = (isLast: boolean): Buffer | undefined => {
        const decipher = createDecipheriv(cipher, key, createNonce(position, isLast), { authTagLength: tagBytes });
        decipher.setAuthTag(sealed.subarray(-tagBytes));
        const plain = decipher.update(sealed.subarray(0, -tagBytes));
        try {
          return Buffer.concat([plain, decipher.final()]);
        } catch {
          return undefined;
        }
      };
      // Only the last chunk needs the second attempt.
      const plain = decrypt(false);
      if (plain) {
        yield plain;
        continue;
      }
      const last = decrypt(true);
      if (!last)
        throw damagedError(
          position === 0
            ? 'Its header or its first chunk was changed, or the key file has another key of that name.'
            : `Chunk ${position} was changed or moved.`,
        );
      if ((await reader.read(1)).length > 0) throw damagedError('There is more after its last chunk.');
      yield last;
      return;
    }
  }
  return { header, content, close: () => reader.close() };
}
