/**
 * Backups as objects in a bucket of S3, or of a store that speaks its protocol. An upload in parts
 * makes an object only when it is completed.
 */
import { createHash } from 'node:crypto';
import type { CompletedPart } from '@aws-sdk/client-s3';
import type { S3Address } from '../../base/settings/flag-values.ts';
import { describeBucketError, regionMissingError, uploadTooLargeError } from './bucket-error.ts';
import { type BackupStorage, existsError, isBackupName } from './storage.ts';

const megabyte = 1024 * 1024;
/** Some stores require that all parts but the last have one size. */
const partBytes = 32 * megabyte;
const maxParts = 10_000;
/** The header of a backup fits into the first range. */
const firstRangeBytes = megabyte / 4;
const rangeBytes = 8 * megabyte;
const connectTimeoutMs = 10_000;
const idleTimeoutMs = 60_000;
/** A store reports only when an upload began. A backup that still runs takes less than a week. */
const abandonedMs = 7 * 86_400_000;

/** Fills one buffer again and again, so the consumer must be done with a part before the next. */
async function* inParts(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const part = Buffer.allocUnsafe(partBytes);
  let filled = 0;
  for await (const chunk of chunks) {
    for (let from = 0; from < chunk.length; ) {
      const copied = chunk.copy(part, filled, from);
      from += copied;
      filled += copied;
      if (filled < partBytes) continue;
      yield part;
      filled = 0;
    }
  }
  if (filled > 0) yield part.subarray(0, filled);
}

/** `endpoint` is null for AWS. Region and credentials come from the environment and its files. */
export async function openBucket(address: S3Address, endpoint: string | null): Promise<BackupStorage> {
  // Loaded only here, because most installations keep their backups in a directory.
  const sdk = await import('@aws-sdk/client-s3');
  const { bucket: Bucket, key } = address;
  const prefix = key === '' || key.endsWith('/') ? key : `${key}/`;
  const pathOf = (name: string) => `s3://${Bucket}/${prefix}${name}`;
  const client = new sdk.S3Client({
    // S3-compatible stores seldom have a DNS name for each bucket.
    ...(endpoint !== null && { endpoint, forcePathStyle: true }),
    // Older stores refuse the newer checksums. A backup has its own digests, and each part an MD5.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: { connectionTimeout: connectTimeoutMs, socketTimeout: idleTimeoutMs },
  });
  await client.config.region().catch(() => {
    throw regionMissingError();
  });
  const explained = <T>(path: string, answer: Promise<T>): Promise<T> =>
    answer.catch((error: unknown) => {
      throw describeBucketError(error, { bucket: Bucket, path, endpoint });
    });

  async function list(): Promise<string[]> {
    const names: string[] = [];
    let ContinuationToken: string | undefined;
    do {
      const page = await explained(
        pathOf(''),
        client.send(new sdk.ListObjectsV2Command({ Bucket, Prefix: prefix, Delimiter: '/', ContinuationToken })),
      );
      names.push(...(page.Contents ?? []).map(({ Key = '' }) => Key.slice(prefix.length)));
      ContinuationToken = page.NextContinuationToken;
    } while (ContinuationToken !== undefined);
    return names.filter(isBackupName).sort();
  }

  /** Reads ranges, because a restore may pause for longer than a store keeps a connection open. */
  async function* read(name: string): AsyncGenerator<Buffer> {
    const Key = prefix + name;
    let IfMatch: string | undefined;
    for (let from = 0, length = firstRangeBytes; ; from += length, length = rangeBytes) {
      const Range = `bytes=${from}-${from + length - 1}`;
      const get = async () => {
        const { Body, ETag } = await client.send(new sdk.GetObjectCommand({ Bucket, Key, Range, IfMatch }));
        return { bytes: (await Body?.transformToByteArray()) ?? new Uint8Array(), ETag };
      };
      const answer = await get().catch((error: unknown) => {
        if (error instanceof sdk.S3ServiceException && error.name === 'InvalidRange') return undefined;
        throw describeBucketError(error, { bucket: Bucket, path: pathOf(name), endpoint });
      });
      if (answer === undefined) return;
      // A new object of that name would not continue the old one.
      IfMatch = answer.ETag;
      yield Buffer.from(answer.bytes.buffer, answer.bytes.byteOffset, answer.bytes.byteLength);
      if (answer.bytes.byteLength < length) return;
    }
  }

  /** Lists the name, because some stores refuse the header If-None-Match when an upload ends. */
  async function refuseExisting(name: string): Promise<void> {
    const Key = prefix + name;
    const { Contents = [] } = await explained(
      pathOf(name),
      client.send(new sdk.ListObjectsV2Command({ Bucket, Prefix: Key, MaxKeys: 1 })),
    );
    if (Contents.some((object) => object.Key === Key)) throw existsError(pathOf(name));
  }

  async function write(name: string, chunks: AsyncIterable<Buffer>, abortSignal?: AbortSignal): Promise<number> {
    await refuseExisting(name);
    const object = { Bucket, Key: prefix + name };
    const { UploadId } = await explained(
      pathOf(name),
      client.send(new sdk.CreateMultipartUploadCommand({ ...object, ContentType: 'application/octet-stream' })),
    );
    try {
      let bytes = 0;
      const Parts: CompletedPart[] = [];
      for await (const Body of inParts(chunks)) {
        const PartNumber = Parts.length + 1;
        if (PartNumber > maxParts) throw uploadTooLargeError(pathOf(name), partBytes * maxParts);
        const ContentMD5 = createHash('md5').update(Body).digest('base64');
        const part = new sdk.UploadPartCommand({ ...object, UploadId, PartNumber, Body, ContentMD5 });
        const { ETag } = await explained(pathOf(name), client.send(part, { abortSignal }));
        Parts.push({ ETag, PartNumber });
        bytes += Body.length;
      }
      abortSignal?.throwIfAborted();
      const whole = new sdk.CompleteMultipartUploadCommand({ ...object, UploadId, MultipartUpload: { Parts } });
      await explained(pathOf(name), client.send(whole));
      return bytes;
    } catch (error) {
      // A failure to abort must not hide the first one. A later backup aborts the upload.
      await client.send(new sdk.AbortMultipartUploadCommand({ ...object, UploadId })).catch(() => {});
      throw error;
    }
  }

  async function removeAbandoned(isOurs: (name: string) => boolean, nowMs: number): Promise<string[]> {
    const removed: string[] = [];
    try {
      const { Uploads = [] } = await client.send(new sdk.ListMultipartUploadsCommand({ Bucket, Prefix: prefix }));
      for (const { Key = '', UploadId, Initiated } of Uploads) {
        const name = Key.slice(prefix.length);
        if (!isOurs(name) || Initiated === undefined || nowMs - Initiated.getTime() < abandonedMs) continue;
        await client.send(new sdk.AbortMultipartUploadCommand({ Bucket, Key, UploadId }));
        removed.push(`unfinished upload of ${pathOf(name)}`);
      }
    } catch {
      // The account may not list uploads, or another backup aborted this one meanwhile.
    }
    return removed;
  }

  return {
    pathOf,
    list,
    read,
    write,
    removeAbandoned,
    async remove(name) {
      await explained(pathOf(name), client.send(new sdk.DeleteObjectCommand({ Bucket, Key: prefix + name })));
    },
  };
}
