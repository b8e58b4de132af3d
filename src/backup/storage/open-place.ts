/** Chooses the storage of a place that a person named: a path, or `s3://BUCKET/PREFIX`. */
import { basename, dirname } from 'node:path';
import { isS3Url, s3AddressFrom } from '../../base/settings/flag-values.ts';
import { BackupRefused } from '../../store/backup/refusal.ts';
import { openBucket } from './bucket.ts';
import { isDirectory, openDirectory } from './directory.ts';
import { type BackupStorage, isBackupName } from './storage.ts';

/** `name` is null if the place is a directory or a prefix. */
export interface BackupPlace {
  storage: BackupStorage;
  name: string | null;
}

/** Opens a directory or a prefix. */
export const openStorage = async (place: string, s3_endpoint: string | null): Promise<BackupStorage> =>
  isS3Url(place) ? openBucket(s3AddressFrom(place), s3_endpoint) : openDirectory(place);

interface Split {
  parent: string;
  name: string | null;
}

/** A bucket has no directories, so the end of the name says whether it is a backup. */
function splitS3(place: string): Split {
  const { bucket, key } = s3AddressFrom(place);
  if (!isBackupName(key)) return { parent: place, name: null };
  const cut = key.lastIndexOf('/') + 1;
  return { parent: `s3://${bucket}/${key.slice(0, cut)}`, name: key.slice(cut) };
}

const splitPath = async (place: string): Promise<Split> =>
  (await isDirectory(place)) ? { parent: place, name: null } : { parent: dirname(place), name: basename(place) };

/** Opens a backup, a directory or a prefix. */
export async function openPlace(place: string, s3_endpoint: string | null): Promise<BackupPlace> {
  const { parent, name } = await (isS3Url(place) ? splitS3 : splitPath)(place);
  return { storage: await openStorage(parent, s3_endpoint), name };
}

/** Opens a backup to read. */
export async function openNamedPlace(
  place: string,
  s3_endpoint: string | null,
): Promise<{ storage: BackupStorage; name: string }> {
  const { storage, name } = await openPlace(place, s3_endpoint);
  if (name !== null) return { storage, name };
  throw new BackupRefused('not_a_backup', `${place} is not a backup`, {
    why: 'It is a directory or a prefix.',
    remedy: `Name one of those that slipway backup list ${place} shows.`,
  });
}
