/**
 * Shows output that a machine never sent, in place of its empty log. The provider collected it when
 * the machine was given up.
 */

import { useQuery } from '@tanstack/react-query';
import type { Node } from '../../../../../src/contract/node.ts';
import { readDiagnostics } from '../../../../../src/lifecycle/findings/diagnostics.ts';
import { collectedOutputQuery } from '../../../api/queries/logs.ts';
import { IconFileText } from '../../../ui/icons.generated.ts';
import { Empty } from '../../../ui/layout/Empty.tsx';
import { FailurePanel } from '../../../ui/layout/FailurePanel.tsx';
import { Ago } from '../../../ui/time/Ago.tsx';
import { LogRow } from './LogRow.tsx';
import styles from './Logs.module.css';

export function LeftOnMachine({ node }: { node: Node }) {
  const { data: fact, isPending, error } = useQuery(collectedOutputQuery(node));
  if (isPending) return null;
  if (error && !fact) return <FailurePanel error={error} />;
  const node_instance_id = fact?.node_instance_id ?? '';
  const lines = fact ? readDiagnostics(fact.data).lines : [];
  if (!fact || lines.length === 0)
    return (
      <Empty icon={IconFileText} title="No lines yet">
        <p>The agent sends its own output and the output of its command.</p>
      </Empty>
    );
  return (
    <>
      <p className={styles.found}>
        The machine sent nothing. The provider collected this <Ago at={fact.at} />:
      </p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard */}
      <div className={styles.box} role="log" aria-label={`Output found on ${node.name}`} tabIndex={0}>
        {lines.map((line, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the lines never change
          <LogRow key={i} line={{ ...line, seq: i + 1, node_instance_id }} />
        ))}
      </div>
    </>
  );
}
