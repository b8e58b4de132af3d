/** Every operation on one node. */

import { useInfiniteQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { operationsQuery } from '../../api/queries/operations.ts';
import { IconProgressCheck } from '../../ui/icons.generated.ts';
import { Empty } from '../../ui/layout/Empty.tsx';
import { FailurePanel } from '../../ui/layout/FailurePanel.tsx';
import { TableSkeleton } from '../../ui/loading/Skeletons.tsx';
import { LoadMore } from '../../ui/table/LoadMore.tsx';
import { OperationTable } from '../operations/OperationTable.tsx';

export function NodeOperations({ node_id }: { node_id: string }) {
  const list = useInfiniteQuery(operationsQuery({ node_id }));
  const [sort, setSort] = useState<string | undefined>();
  const operations = list.data?.pages.flatMap((page) => page.items);
  if (list.error && !operations) return <FailurePanel error={list.error} />;
  if (!operations) return <TableSkeleton />;
  if (operations.length === 0) return <Empty icon={IconProgressCheck} title="No operation has touched this node" />;
  return (
    <>
      <OperationTable operations={operations} sort={sort} onSort={setSort} />
      <LoadMore list={list} />
    </>
  );
}
