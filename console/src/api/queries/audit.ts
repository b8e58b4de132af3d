/** Reads the audit log; only for operators of the whole fleet. */
import { infiniteQueryOptions } from '@tanstack/react-query';
import type { AuditQuery } from '../../../../src/contract/evidence/evidence.ts';
import { type Filters, keys } from '../cache/keys.ts';
import { firstPage, nextPage } from '../cache/lists.ts';
import { call } from '../client.ts';

const pageSize = 100;

export const auditQuery = (filter: Filters) =>
  infiniteQueryOptions({
    queryKey: keys.audit(filter),
    initialPageParam: firstPage,
    getNextPageParam: nextPage,
    queryFn: ({ pageParam, signal }) =>
      call('audit-list', {
        query: { ...(filter as AuditQuery), order: 'newest', limit: pageSize, cursor: pageParam ?? undefined },
        signal,
      }),
  });
