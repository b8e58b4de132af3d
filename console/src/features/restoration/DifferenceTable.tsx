/** The machines that differ from their restored rows. */
import { Link } from '@tanstack/react-router';
import type { RestorationDifference } from '../../../../src/contract/supervision/restoration.ts';
import { differenceCatalogue } from '../../../../src/lifecycle/findings/restored-differences.ts';
import { CopyId, shortId } from '../../ui/layout/CopyId.tsx';
import { type Column, DataTable } from '../../ui/table/DataTable.tsx';
import { toSentence } from '../../ui/text.ts';
import { Ago } from '../../ui/time/Ago.tsx';
import { withLocalTimes } from '../../ui/time/times.ts';

/** A machine that came after the backup has no node here, even if its tags name one. */
function Machine({ difference: { kind, node_id, subject } }: { difference: RestorationDifference }) {
  if (kind === 'came' || node_id === null) return <CopyId id={subject} />;
  return (
    <Link to="/nodes/$id" params={{ id: node_id }} title={node_id}>
      <code>{shortId(node_id)}</code>
    </Link>
  );
}

const columns: Column<RestorationDifference>[] = [
  { key: 'kind', heading: 'Difference', cell: ({ kind }) => <b>{differenceCatalogue[kind].title}</b> },
  { key: 'machine', heading: 'Machine', cell: (difference) => <Machine difference={difference} /> },
  {
    key: 'where',
    heading: 'Provider',
    cell: ({ driver, host }) => [driver, host].filter(Boolean).join(' · '),
    roomyOnly: true,
  },
  { key: 'seen', heading: 'Seen', cell: ({ seen }) => toSentence(withLocalTimes(seen)) },
  { key: 'since', heading: 'Since', cell: ({ first_seen_at }) => <Ago at={first_seen_at} /> },
];

export const DifferenceTable = ({ differences }: { differences: RestorationDifference[] }) => (
  <DataTable
    label="Machines that differ"
    columns={columns}
    rows={differences}
    rowKey={({ kind, subject }) => `${kind} ${subject}`}
    sort={undefined}
    onSort={() => {}}
  />
);
