/**
 * Stops a server at one engine step at the worst moment: the step has taken effect, but is not
 * recorded yet. The insert of the record waits for a lock, which the test holds until it has killed
 * or frozen the server.
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
  /** Stops every server that reaches this step from now on. */
  set(step: string): Promise<void>;
  /** Resolves when a server is stopped at this step. */
  sprung(): Promise<void>;
  /**
   * Removes the trap, so that servers continue. Ends the waiting insert of a killed server, so that
   * its record is never stored.
   */
  clear(state: 'killed' | 'frozen'): Promise<void>;
}

/** Looks only at this database, because other tests set the same trap in their databases. */
const waitingSql = `
  select pid
  from pg_locks
  where locktype = 'advisory'
    and objid = ${lock}
    and not granted
    and database = (select oid from pg_database where datname = current_database())`;

/**
 * A server must have started on this database before, because the trap needs the engine's tables.
 */
export async function buildTrap(db: DatabaseConnection): Promise<Trap> {
  await db.query(trapSql);
  return {
    async set(step) {
      await db.query(`select pg_advisory_lock(${lock})`);
      await db.query('insert into chaos_trap values ($1)', [step]);
    },
    async sprung() {
      await until('a server to wait in the trap', async () => (await db.countRows(waitingSql)) > 0, { seconds: 180 });
    },
    async clear(state) {
      await db.query('delete from chaos_trap');
      if (state === 'killed') await db.query(`select pg_terminate_backend(pid) from (${waitingSql}) as trapped`);
      await db.query(`select pg_advisory_unlock(${lock})`);
    },
  };
}
