/** One row per action or refusal: when, who, what, target and reason. */

import { Link } from '@tanstack/react-router';
import type { Evidence } from '../../../../src/contract/evidence/evidence.ts';
import { IconBan } from '../../ui/icons.generated.ts';
import { CopyId, shortId } from '../../ui/layout/CopyId.tsx';
import { StatusBadge } from '../../ui/status/StatusBadge.tsx';
import { type Column, DataTable } from '../../ui/table/DataTable.tsx';
import { Ago } from '../../ui/time/Ago.tsx';
import { withLocalTimes } from '../../ui/time/times.ts';
import { OriginLabel } from '../evidence/OriginLabel.tsx';
import styles from './AuditTable.module.css';
import { type AuditFilter, codeOf, reasonOf, targetOf } from './words.ts';

const refused = { tone: 'bad', icon: IconBan } as const;

interface Props {
  facts: Evidence[];
  /** Called when a click on a value filters the list by that value. */
  onFilter: (filter: AuditFilter) => void;
}

const columnsFor = (onFilter: Props['onFilter']): Column<Evidence>[] => [
  { key: 'at', heading: 'When', cell: ({ at }) => <Ago at={at} /> },
  {
    key: 'who',
    heading: 'Who',
    cell: ({ actor }) =>
      actor && (
        <button type="button" className={styles.narrow} onClick={() => onFilter({ actor: actor.name })}>
          {actor.name}
        </button>
      ),
  },
  {
    key: 'what',
    heading: 'What',
    cell: (fact) => (
      <div className={styles.what}>
        <span>
          {codeOf(fact) && <StatusBadge look={refused} status="refused" />} <OriginLabel fact={fact} />
          {withLocalTimes(fact.summary)}
        </span>
        <span className={styles.dim}>
          <code>{fact.kind}</code>
          {reasonOf(fact) && ` · “${reasonOf(fact)}”`}
        </span>
      </div>
    ),
  },
  { key: 'target', heading: 'To what', cell: (fact) => <Target fact={fact} /> },
  {
    key: 'correlation',
    heading: 'Correlation id',
    cell: ({ correlation_id }) => correlation_id && <CopyId id={correlation_id} short />,
    wideOnly: true,
  },
];

function Target({ fact }: { fact: Evidence }) {
  const { node_id, allocation_id, workflow_id } = fact;
  if (allocation_id)
    return (
      <Link to="/allocations/$id" params={{ id: allocation_id }} title={allocation_id}>
        <code>{shortId(allocation_id)}</code>
      </Link>
    );
  if (node_id)
    return (
      <Link to="/nodes/$id" params={{ id: node_id }} title={node_id}>
        <code>{shortId(node_id)}</code>
      </Link>
    );
  if (workflow_id)
    return (
      <Link to="/operations/$id" params={{ id: workflow_id }} title={workflow_id}>
        <code>{shortId(workflow_id)}</code>
      </Link>
    );
  const target = targetOf(fact);
  return target && <code>{target}</code>;
}

export const AuditTable = ({ facts, onFilter }: Props) => (
  <DataTable
    label="Audit"
    columns={columnsFor(onFilter)}
    rows={facts}
    rowKey={({ cursor }) => cursor}
    sort={undefined}
    onSort={() => {}}
  />
);
