/**
 * Stops a server at one engine step, at the worst moment: the step has taken effect, but is not
 * recorded yet. The insert of the record waits for a lock that the test holds until it has killed
 * the server.
 */
import type { DatabaseConnection } from '../support/database-connection.ts';
import { until } from '../support/until.ts';

const lock = 20_261;

const trapSql = `
  create table if not exists chaos_trap (step text not null);
  create or replace function chaos_wait() returns trigger language plpgsql as $$
  begin
    if exists (select 1 from chaos_trap where step = new.function_name) then
      perform pg_advisory_xact_lock(${lock});
    end if;
    return new;
  end $$;
  create or replace trigger chaos_wait
    before insert on dbos.operation_outputs
    for each row execute function chaos_wait();`;

export interface Trap {
  /** From now on no server gets past this step. */
  set(step: string): Promise<void>;
  /** Resolves when a server waits at this step. */
  sprung(): Promise<void>;
  /** Lets all servers pass again. A killed server has lost its connection and never passes. */
  clear(dead: 'killed' | 'frozen'): Promise<void>;
}

/** Limited to this database, because another test may have set the same trap in its own. */
const waiting = `
  select pid
  from pg_locks
  where locktype = 'advisory'
    and objid = ${lock}
    and not granted
    and database = (select oid from pg_database where datname = current_database())`;

/** Needs the engine's tables, so a server must have started on this database before. */
export async function buildTrap(db: DatabaseConnection): Promise<Trap> {
  await db.query(trapSql);
  return {
    async set(step) {
      await db.query(`select pg_advisory_lock(${lock})`);
      await db.query('insert into chaos_trap values ($1)', [step]);
    },
    async sprung() {
      await until('a server to wait in the trap', async () => (await db.countRows(waiting)) > 0, { seconds: 180 });
    },
    async clear(dead) {
      await db.query('delete from chaos_trap');
      if (dead === 'killed') await db.query(`select pg_terminate_backend(pid) from (${waiting}) as trapped`);
      await db.query(`select pg_advisory_unlock(${lock})`);
    },
  };
}
