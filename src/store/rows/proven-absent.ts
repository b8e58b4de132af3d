import { recordedByServerSql } from '../evidence/own-facts.ts';

/** SQL: the machine of the instance was proven absent, so it never returns. */
export const isProvenAbsent = (instance: string) => `(
  exists (
    select 1
    from evidence proof
    where proof.node_instance_id = ${instance}
      and proof.layer = 'provider'
      and proof.kind = 'proof.absent'
      and ${recordedByServerSql('proof')})
  or exists (
    select 1
    from residue entry
    where entry.node_instance_id = ${instance}
      and entry.status = 'gone'
      and entry.proof ->> 'kind' = 'absent'))`;
