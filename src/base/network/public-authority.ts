/** Reads the certificate authority that launched machines trust for the server's public URL. */
import { readFile } from 'node:fs/promises';
import { SettingsError } from '../settings/flag-values.ts';
import type { ServerSettings } from '../settings/settings.ts';

export async function readPublicAuthority({ public_ca }: Pick<ServerSettings, 'public_ca'>): Promise<string | null> {
  if (public_ca === null) return null;
  const pem = await readFile(public_ca, 'utf8').catch((error: Error) => {
    throw new SettingsError(`cannot read --public-ca ${public_ca}: ${error.message}`);
  });
  if (!pem.includes('-----BEGIN CERTIFICATE-----'))
    throw new SettingsError(`--public-ca ${public_ca} contains no PEM certificate`);
  return pem;
}
