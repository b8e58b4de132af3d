/** A glance at the node under the pointer or the focus; one for the whole grid, because ten thousand would be too many. */
import { Portal } from '@mantine/core';
import type { Node } from '../../../src/contract/node.ts';
import { Ago } from './Ago.tsx';
import { shortId } from './CopyId.tsx';
import { Countdown } from './Countdown.tsx';
import { HeldTag } from './HeldSign.tsx';
import styles from './NodePeek.module.css';
import { NodeStatusBadge } from './StatusBadges.tsx';

const widthPx = 288;
const heightPx = 150;
const gapPx = 8;

interface Props {
  node: Node;
  at: DOMRect;
  /** Why its release has failed, where it has. */
  stuck?: string | undefined;
}

export function NodePeek({ node, at, stuck }: Props) {
  const left = Math.max(gapPx, Math.min(at.left, window.innerWidth - widthPx - gapPx));
  const fitsBelow = at.bottom + heightPx < window.innerHeight;
  const vertical = fitsBelow ? { top: at.bottom + gapPx } : { bottom: window.innerHeight - at.top + gapPx };
  return (
    <Portal>
      <div className={styles.peek} style={{ left, width: widthPx, ...vertical }} aria-hidden>
        <div className={styles.head}>
          <b className={styles.name}>{node.name}</b>
          <NodeStatusBadge status={node.status} />
        </div>
        <div className={styles.row}>
          {node.status} for <Ago at={node.status_since} asAge />
          {node.deadline_at && (
            <>
              {' · '}
              <Countdown at={node.deadline_at} budget_seconds={node.budget_seconds} /> left
            </>
          )}
        </div>
        {node.verdict && <div className={styles.verdict}>{node.verdict.reason}</div>}
        {stuck && <div className={styles.verdict}>Its release failed: {stuck}</div>}
        {node.held && (
          <div className={styles.verdict}>
            <HeldTag node={node} /> would be {node.held.to}: {node.held.reason}
          </div>
        )}
        <div className={styles.row}>
          {[node.pool, node.zone, node.occupancy].filter(Boolean).join(' · ')} · <code>{shortId(node.node_id)}</code>
        </div>
      </div>
    </Portal>
  );
}
