/** Reads the residue ledger and acts on its entries. The server refuses both to tenants. */
import { infiniteQueryOptions } from '@tanstack/react-query';
import { type Filters, keys } from '../cache/keys.ts';
import { firstPage, nextPage } from '../cache/lists.ts';
import { act, call } from '../client.ts';

const pageSize = 100;

export const residueQuery = (filter: Filters) =>
  infiniteQueryOptions({
    queryKey: keys.residueList(filter),
    initialPageParam: firstPage,
    getNextPageParam: nextPage,
    queryFn: ({ pageParam, signal }) =>
      call('residue-list', { query: { ...filter, limit: pageSize, cursor: pageParam ?? undefined }, signal }),
  });

export type ResidueActionName = 'verify' | 'adopt' | 'delete';

const routes = { verify: 'residue-verify', adopt: 'residue-adopt', delete: 'residue-delete' } as const;

export const actOnResidue = (
  id: string,
  action: ResidueActionName,
  body: { reason: string; dry_run?: boolean },
  idempotency_key: string,
) => act(routes[action], { params: { id }, body, idempotency_key });
