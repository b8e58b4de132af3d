/** Previews the node under the pointer or the focus. The whole grid shares one preview. */
import { Portal } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { systemClock } from '../../../../src/base/clock.ts';
import { displayOccupancy } from '../../../../src/lifecycle/model/states.ts';
import type { FleetNode } from '../../api/cache/fleet-node.ts';
import { nodeQuery } from '../../api/queries/nodes.ts';
import { shortId } from '../../ui/layout/CopyId.tsx';
import { NodeStatusBadge } from '../../ui/status/StatusBadges.tsx';
import { Ago } from '../../ui/time/Ago.tsx';
import { Countdown } from '../../ui/time/Countdown.tsx';
import { isoOf } from '../../ui/time/times.ts';
import { HeldTag } from '../supervision/HeldVerdicts.tsx';
import styles from './NodePreview.module.css';

const widthPx = 288;
const heightPx = 150;
const gapPx = 8;

/** Wait this long before loading, so that moving across cells sends no requests. */
const hoverMs = 120;

function useMore(node_id: string) {
  const [requestedId, setRequestedId] = useState('');
  useEffect(() => systemClock.after(hoverMs, () => setRequestedId(node_id)), [node_id]);
  return useQuery({ ...nodeQuery(node_id), enabled: requestedId === node_id, retry: false }).data;
}

interface Props {
  node: FleetNode;
  at: DOMRect;
  /** Why the release of this node failed; undefined if it did not. */
  stuck?: string | undefined;
}

export function NodePreview({ node, at, stuck }: Props) {
  const more = useMore(node.node_id);
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
          {node.status} for <Ago at={isoOf(node.since_ms)} asAge />
          {node.deadline_ms !== null && (
            <>
              {' · '}
              <Countdown at={isoOf(node.deadline_ms)} budget_seconds={more?.budget_seconds ?? null} /> left
            </>
          )}
        </div>
        {more?.verdict && <div className={styles.verdict}>{more.verdict.reason}</div>}
        {stuck && <div className={styles.verdict}>The release failed: {stuck}</div>}
        {node.held && (
          <div className={styles.verdict}>
            <HeldTag node={node} /> {more?.held && `would be ${more.held.to}: ${more.held.reason}`}
          </div>
        )}
        <div className={styles.row}>
          {[node.pool, node.zone, more && displayOccupancy(more)].filter(Boolean).join(' · ')} ·{' '}
          <code>{shortId(node.node_id)}</code>
        </div>
      </div>
    </Portal>
  );
}
