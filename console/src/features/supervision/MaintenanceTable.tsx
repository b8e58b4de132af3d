/** Maintenance windows; verdicts pause for the machines they cover. */
import type { Maintenance } from '../../../../src/contract/supervision/supervision.ts';
import { useTicking } from '../../api/server-clock.ts';
import { type Column, DataTable } from '../../ui/table/DataTable.tsx';
import { Ago } from '../../ui/time/Ago.tsx';
import { Countdown } from '../../ui/time/Countdown.tsx';

const coverage = ({ pool, zone, labels }: Maintenance) =>
  [pool && `pool ${pool}`, zone && `zone ${zone}`, ...Object.entries(labels).map(([key, value]) => `${key}=${value}`)]
    .filter(Boolean)
    .join(', ');

function State({ window: { starts_at, ends_at } }: { window: Maintenance }) {
  const isOpen = useTicking((nowMs) => Date.parse(starts_at) <= nowMs);
  return isOpen ? (
    <span>
      open, ends in <Countdown at={ends_at} />
    </span>
  ) : (
    <span>
      begins <Ago at={starts_at} />
    </span>
  );
}

const columns: Column<Maintenance>[] = [
  { key: 'name', heading: 'Window', cell: ({ name }) => <b>{name}</b> },
  { key: 'covers', heading: 'Covers', cell: coverage },
  { key: 'state', heading: 'State', cell: (window) => <State window={window} /> },
  { key: 'why', heading: 'Why', cell: ({ reason }) => reason },
  { key: 'by', heading: 'By', cell: ({ actor }) => actor?.name },
];

export const MaintenanceTable = ({ windows }: { windows: Maintenance[] }) => (
  <DataTable
    label="Maintenance windows"
    columns={columns}
    rows={windows}
    rowKey={({ name }) => name}
    sort={undefined}
    onSort={() => {}}
  />
);
