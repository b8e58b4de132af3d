/** The usage of `slipway admin`, and its report for people. */
import type { Obstacle, ResetToken } from '../operations/runtime/reset-admin-token.ts';

export const adminUsage = `Usage: slipway admin reset-token [--database-url URL] [--data-dir DIR]

Creates a new admin token, and prints it once. Use it on the host if no admin token is accepted any more. The server may run.
It needs no token, but the right to read the data directory or the URL of the database.

  --database-url URL    the database, as for slipway serve (SLIPWAY_OWNER_DATABASE_URL, SLIPWAY_DATABASE_URL)
  --data-dir DIR        the data directory of the server (SLIPWAY_DATA_DIR; default .slipway)

The new token replaces the one in admin.token of the data directory, which is revoked. Other tokens stay as they are.
It is only printed, and nothing is revoked, if admin.token belongs to another database or account, or has the token of
SLIPWAY_ADMIN_TOKEN and that is still accepted.

Exit status: 0 done, 2 refused`;

const obstacleTexts: Record<Obstacle, (path: string) => string[]> = {
  no_directory: () => [],
  other_account: (path) => [
    `${path} was not changed: its directory belongs to another account.`,
    'To replace the token there, run this command as that account or as root.',
  ],
  other_database: (path) => [`${path} was not changed: its directory names no token of this database.`],
  environment: (path) => [
    `${path} was not changed: its token came from SLIPWAY_ADMIN_TOKEN.`,
    'That token is still accepted. It was not revoked, because other programs may use it.',
  ],
  write_failed: (path) => [`${path} could not be written.`],
};

export function renderReset({ token, path, obstacle, revoked }: ResetToken): string {
  const place =
    obstacle === null
      ? [`It is also in ${path}.`]
      : ['It is stored nowhere else: keep it now.', ...obstacleTexts[obstacle](path)];
  const former = revoked.length === 0 ? [] : [`Revoked: ${revoked.join(', ')}, which it replaces.`];
  const lines = ['The new admin token, shown once:', '', token, '', ...place, ...former];
  return ['', ...lines.map((line) => (line === '' ? '' : `  ${line}`)), ''].join('\n');
}
