/** The usage of `slipway admin`, and its report for people. */
import type { ResetToken } from '../operations/runtime/reset-admin-token.ts';

export const adminUsage = `Usage: slipway admin reset-token [--database-url URL] [--data-dir DIR]

Creates a new admin token, and prints it once. Use it on the host if no admin token is accepted any more. The server may run.
It needs no token, but the right to read the data directory or the URL of the database.

  --database-url URL    the database, as for slipway serve (SLIPWAY_OWNER_DATABASE_URL, SLIPWAY_DATABASE_URL)
  --data-dir DIR        the data directory of the server (SLIPWAY_DATA_DIR; default .slipway)

The new token replaces the one in admin.token of the data directory, which is revoked. Other tokens stay as they are.

Exit status: 0 done, 2 refused`;

export function renderReset({ token, path, revoked }: ResetToken): string {
  const place = path === null ? 'It is stored nowhere else: keep it now.' : `It is also in ${path}.`;
  const former = revoked.length === 0 ? [] : [`  Revoked: ${revoked.join(', ')}, which it replaces.`];
  return ['', '  The new admin token, shown once:', '', `  ${token}`, '', `  ${place}`, ...former, ''].join('\n');
}
