/** Loads the budget dialog when it is first opened. */
import { loadOnDemand } from '../../ui/dialog/on-demand.tsx';

export const BudgetDialog = loadOnDemand(
  ({ opened }) => opened,
  async () => (await import('./BudgetDialog.tsx')).BudgetDialog,
);
