/** Every node a cell, grouped by pool. A cell has its status as colour, icon and words; arrow keys walk from cell to cell. */
import { Link } from '@tanstack/react-router';
import { type KeyboardEvent, memo, useMemo, useState } from 'react';
import type { Node } from '../../../src/contract/node.ts';
import type { Pool } from '../../../src/contract/pool.ts';
import { countByStatus, countWords, type FleetGroup } from '../fleet.ts';
import { useTicking } from '../live/clock.ts';
import { nodeLooks } from '../status-looks.ts';
import { toneStyle } from '../theme.ts';
import styles from './FleetGrid.module.css';
import { NodePeek } from './NodePeek.tsx';
import { StatusBar } from './StatusBar.tsx';

interface Props {
  groups: FleetGroup[];
  pools: Pool[] | undefined;
}

export interface Peeked {
  node_id: string;
  at: DOMRect;
}

export function FleetGrid({ groups, pools }: Props) {
  const [peeked, peek] = useState<Peeked | null>(null);
  const byId = useMemo(
    () => new Map(groups.flatMap((group) => group.nodes.map((node) => [node.node_id, node] as const))),
    [groups],
  );
  const look = (target: EventTarget) => {
    const cell = target instanceof Element ? target.closest<HTMLElement>('[data-node]') : null;
    peek(cell?.dataset.node ? { node_id: cell.dataset.node, at: cell.getBoundingClientRect() } : null);
  };
  const node = peeked && byId.get(peeked.node_id);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the cells are links; this only shows more about the one under the pointer
    <div
      className={styles.groups}
      onMouseOver={(event) => look(event.target)}
      onMouseLeave={() => peek(null)}
      onFocus={(event) => look(event.target)}
      onBlur={() => peek(null)}
    >
      {groups.map((group) => (
        <Group key={group.name} group={group} pool={pools?.find(({ name }) => name === group.name)} />
      ))}
      {node && peeked && <NodePeek node={node} at={peeked.at} />}
    </div>
  );
}

function Group({ group: { name, nodes }, pool }: { group: FleetGroup; pool: Pool | undefined }) {
  const counts = countByStatus(nodes);
  return (
    <section className={styles.group} aria-label={`Pool ${name}: ${countWords(counts)}`}>
      <div className={styles.head}>
        <h2 className={styles.name}>{name}</h2>
        <span className={styles.about}>
          {[
            pool?.driver,
            `${nodes.length} ${nodes.length === 1 ? 'node' : 'nodes'}`,
            pool && `${pool.nodes.free} free`,
            pool?.max_nodes && `at most ${pool.max_nodes}`,
            pool?.mode === 'observe' && 'only observed',
            pool?.paused && 'paused',
          ]
            .filter(Boolean)
            .join(' · ')}
        </span>
        <StatusBar counts={counts} total={nodes.length} />
      </div>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: arrow keys move the focus between the links inside */}
      <div className={styles.cells} onKeyDown={walk}>
        {nodes.map((node, at) => (
          <Cell key={node.node_id} node={node} isStop={at === 0} />
        ))}
      </div>
    </section>
  );
}

const Cell = memo(function Cell({ node, isStop }: { node: Node; isStop: boolean }) {
  const { tone, icon: Icon, loud } = nodeLooks[node.status];
  const overdue = useTicking((nowMs) => node.deadline_at !== null && Date.parse(node.deadline_at) < nowMs);
  const marks = [node.held && 'held', overdue && 'overdue'].filter(Boolean);
  return (
    <Link
      to="/nodes/$id"
      params={{ id: node.node_id }}
      className={styles.cell}
      style={toneStyle(tone)}
      data-node={node.node_id}
      data-status={node.status}
      data-loud={loud || undefined}
      data-mark={marks[0] || undefined}
      tabIndex={isStop ? 0 : -1}
      aria-label={[node.name, node.status, ...marks].join(', ')}
    >
      <Icon size={16} stroke={2.25} aria-hidden />
    </Link>
  );
});

/** One tab stop a group; inside it the arrows move, by place on the screen. */
function walk(event: KeyboardEvent<HTMLDivElement>): void {
  const cells = [...event.currentTarget.querySelectorAll<HTMLElement>('[data-node]')];
  const at = document.activeElement instanceof HTMLElement ? cells.indexOf(document.activeElement) : -1;
  const [first, second] = cells;
  if (at === -1 || !first) return;
  const below = cells.findIndex((cell) => cell.offsetTop > first.offsetTop);
  const perRow = second && below > 0 ? below : cells.length;
  const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: perRow, ArrowUp: -perRow };
  const step = steps[event.key];
  const target = step === undefined ? undefined : cells[at + step];
  if (!target) return;
  event.preventDefault();
  target.focus();
}
