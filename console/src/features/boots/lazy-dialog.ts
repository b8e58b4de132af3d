/** Loads the budget dialog when it is first opened. */
import { onDemand } from '../../ui/dialog/on-demand.tsx';

export const BudgetDialog = onDemand(
  ({ opened }) => opened,
  async () => (await import('./BudgetDialog.tsx')).BudgetDialog,
);
