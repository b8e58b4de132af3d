/**
 * Reads everything that may need a person. The stream keeps the lists current. The badge in the
 * navigation uses this hook too.
 */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import type {
  AttentionAllocationStatus,
  AttentionNodeStatus,
  AttentionOperationStatus,
} from '../../../../src/lifecycle/explain/attention.ts';
import { allocationsQuery } from '../../api/queries/allocations.ts';
import { findingsQuery } from '../../api/queries/findings.ts';
import { nodesWithStatusQuery } from '../../api/queries/nodes.ts';
import { operationsQuery } from '../../api/queries/operations.ts';
import { poolsQuery } from '../../api/queries/pools.ts';
import { residueQuery } from '../../api/queries/residue.ts';
import { brakeQuery, serverStatusQuery, sweepsQuery } from '../../api/queries/supervision.ts';
import { useTicking } from '../../api/server-clock.ts';
import { mayOperate, seesWholeFleet, useSession } from '../../api/session.ts';
import { type Known, type Section, sectionsOf } from './concerns.ts';

/** Some concerns begin when a status has lasted a while, without an event. */
const recomputeMs = 10_000;

const open = { status: 'open' };
// An overloaded server answers lists of nodes, allocations and operations only with these filters.
const running: { status: AttentionOperationStatus } = { status: 'running' };
const failedAllocations: { status: AttentionAllocationStatus } = { status: 'failed' };
const failedReleases: { status: AttentionAllocationStatus } = { status: 'release_failed' };
const nodesInTrouble = (status: AttentionNodeStatus) => nodesWithStatusQuery(status);

const itemsOf = <T>(list: { data?: { pages: { items: T[] }[] } | undefined }): T[] | undefined =>
  list.data?.pages.flatMap((page) => page.items);

export interface Attention {
  sections: Section[];
  known: Known;
  /** Every query that this session may send was answered, or at least one failed. */
  isRead: boolean;
  /** No list of concerns has a further page. */
  isAll: boolean;
  /** A query failed; kept while it is retried. */
  error: Error | null;
}

export function useAttention(): Attention {
  const session = useSession();
  const enabled = seesWholeFleet(session);
  const tick = useTicking((nowMs) => Math.floor(nowMs / recomputeMs));
  const server = useQuery({ ...serverStatusQuery, enabled: enabled && mayOperate(session) });
  const brake = useQuery({ ...brakeQuery, enabled });
  const sweeps = useQuery({ ...sweepsQuery, enabled });
  const pools = useQuery({ ...poolsQuery, enabled });
  const releases = useInfiniteQuery(allocationsQuery(failedReleases));
  const unserved = useInfiniteQuery(allocationsQuery(failedAllocations));
  const offline = useInfiniteQuery(nodesInTrouble('offline'));
  const quarantined = useInfiniteQuery(nodesInTrouble('quarantined'));
  const failed = useInfiniteQuery(nodesInTrouble('failed'));
  const degraded = useInfiniteQuery(nodesInTrouble('degraded'));
  const cleaning = useInfiniteQuery({ ...nodesInTrouble('cleaning'), enabled });
  const operations = useInfiniteQuery({ ...operationsQuery(running), enabled });
  const residue = useInfiniteQuery({ ...residueQuery(open), enabled });
  const findings = useInfiniteQuery({ ...findingsQuery(open), enabled });
  const lists = [releases, unserved, offline, quarantined, failed, degraded, cleaning, residue, findings];
  const reads = [server, brake, sweeps, pools, operations, ...lists];

  // biome-ignore lint/correctness/useExhaustiveDependencies: `data` changes whenever the items do
  const known = useMemo(
    (): Known => ({
      server: server.data?.problems,
      brake: brake.data,
      sweeps: sweeps.data?.items,
      pools: pools.data,
      release_failed: itemsOf(releases),
      offline: itemsOf(offline),
      quarantined: itemsOf(quarantined),
      failed: itemsOf(failed),
      failed_allocations: itemsOf(unserved),
      degraded: itemsOf(degraded),
      cleaning: itemsOf(cleaning),
      running: itemsOf(operations),
      residue: itemsOf(residue),
      findings: itemsOf(findings),
    }),
    [server.data, brake.data, sweeps.data, pools.data, operations.data, ...lists.map(({ data }) => data)],
  );
  // A disabled query is pending and idle.
  const isSettled = reads.every(({ isPending, fetchStatus }) => !isPending || fetchStatus === 'idle');
  // A retry clears the error of its query. Keep the last error until the retry ends, or the error
  // panel would flicker.
  const [refusal, setRefusal] = useState<Error | null>(null);
  const error = reads.find(({ error }) => error)?.error ?? (isSettled ? null : refusal);
  if (error !== refusal) setRefusal(error);

  return {
    sections: useMemo(() => sectionsOf(known, tick * recomputeMs), [known, tick]),
    known,
    isRead: isSettled || error !== null,
    isAll: !lists.some(({ hasNextPage }) => hasNextPage),
    error,
  };
}
