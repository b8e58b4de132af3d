/**
 * Returns the trouble of machines by allocation, from lists that the Attention page reads anyway.
 */
import { useInfiniteQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { nodesWithStatusQuery } from '../../api/queries/nodes.ts';
import { type MachineTrouble, troubleByAllocation } from '../../ui/status/machine-trouble.ts';

export function useMachineTrouble(): ReadonlyMap<string, MachineTrouble> {
  const { data: offline } = useInfiniteQuery(nodesWithStatusQuery('offline'));
  const { data: quarantined } = useInfiniteQuery(nodesWithStatusQuery('quarantined'));
  return useMemo(
    () =>
      troubleByAllocation([offline, quarantined].flatMap((list) => list?.pages.flatMap(({ items }) => items) ?? [])),
    [offline, quarantined],
  );
}
