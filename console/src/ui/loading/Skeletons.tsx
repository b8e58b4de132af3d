/** Placeholders with the shape of the page, so that nothing jumps when it loads. */
import { Skeleton } from '@mantine/core';
import columns from '../layout/Columns.module.css';

export const DetailSkeleton = () => (
  <div className={columns.stack} role="status" aria-label="Loading">
    <Skeleton height={34} width="18rem" radius="md" />
    <Skeleton height={112} radius="lg" />
    <Skeleton height={320} radius="lg" />
  </div>
);

const rows = ['a', 'b', 'c', 'd', 'e'];

export const TableSkeleton = () => (
  <div className={columns.stack} style={{ padding: '1rem' }} role="status" aria-label="Loading">
    {rows.map((row) => (
      <Skeleton key={row} height={24} radius="sm" />
    ))}
  </div>
);
