/** Tokens as a person reads them. */
import type { Token } from '../../../contract/security/token.ts';
import { ageSince, relative } from '../text/duration.ts';
import type { Column } from '../text/table.ts';

export const tokenColumns = (nowMs: number): Column<Token>[] => [
  { title: 'TOKEN', value: (token) => token.token_id },
  { title: 'NAME', value: (token) => token.name, shrinks_to: 10 },
  { title: 'ROLE', value: (token) => token.role },
  { title: 'TENANT', value: ({ tenant, pool }) => (pool ? `pool ${pool}` : (tenant ?? '(all)')), shrinks_to: 8 },
  { title: 'LAST USED', value: (token) => (token.last_used_at ? relative(token.last_used_at, nowMs) : 'never') },
  {
    title: 'EXPIRES',
    value: (token) => (token.expires_at ? relative(token.expires_at, nowMs) : 'never'),
    tone: (token) => (token.expires_at && Date.parse(token.expires_at) < nowMs ? 'bad' : undefined),
  },
  { title: 'AGE', value: (token) => ageSince(token.created_at, nowMs), align: 'right', drop: 1 },
];
