/** The residue ledger as a person reads it. */
import type { Residue } from '../../../contract/supervision/residue.ts';
import { ageSince } from '../text/duration.ts';
import type { Column } from '../text/table.ts';
import { printable } from '../text/text.ts';

const cost = ({ cost_per_hour }: Residue) => (cost_per_hour === null ? '' : `${cost_per_hour}/h`);

const says = ({ status, seen, settled_reason, settled_by, reason }: Residue) =>
  printable(
    status === 'open'
      ? (seen ?? reason)
      : [settled_reason ?? seen, settled_by && `by ${settled_by.name}`].filter(Boolean).join(', '),
  );

export const residueColumns = (nowMs: number): Column<Residue>[] => [
  { title: 'RESIDUE', value: (row) => row.residue_id },
  { title: 'STATUS', value: (row) => row.status, tone: (row) => (row.status === 'open' ? 'warn' : 'quiet') },
  { title: 'WHY', value: (row) => row.why },
  { title: 'WHAT', value: (row) => printable(`${row.kind} ${row.resource}`), shrinks_to: 16 },
  { title: 'POOL', value: (row) => row.pool ?? '', drop: 6, optional: true },
  { title: 'HOST', value: (row) => printable(row.host ?? ''), drop: 8, optional: true },
  { title: 'COST', value: cost, align: 'right', optional: true },
  { title: 'AGE', value: (row) => ageSince(row.since, nowMs), align: 'right' },
  { title: 'LOOKED', value: (row) => ageSince(row.verified_at, nowMs), align: 'right', drop: 7, optional: true },
  { title: 'SAYS', value: says, drop: 5, below: true },
];
