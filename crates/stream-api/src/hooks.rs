//! The hooks that every kind of function has: written once, as methods of its own, so that a function is one `impl` block.

/// The hooks as methods of a function trait. Their contracts are those of the traits of `highwater-state-api`.
macro_rules! hooks {
    () => {
        /// Called once in every attempt, before the first record: gets the state handles. See
        /// [`CheckpointedFunction::initialize_state`](highwater_state_api::CheckpointedFunction::initialize_state).
        fn initialize_state(
            &mut self,
            _cx: &mut dyn highwater_state_api::FunctionInitializationContext,
        ) -> Result<(), highwater_state_api::BoxedError> {
            Ok(())
        }

        /// Called in the synchronous part of every snapshot. An error declines the checkpoint. See
        /// [`CheckpointedFunction::snapshot_state`](highwater_state_api::CheckpointedFunction::snapshot_state).
        fn snapshot_state(
            &mut self,
            _cx: &mut dyn highwater_state_api::FunctionSnapshotContext,
        ) -> Result<(), highwater_state_api::BoxedError> {
            Ok(())
        }

        /// A checkpoint is complete. See [`CheckpointListener`](highwater_state_api::CheckpointListener).
        fn notify_checkpoint_complete(
            &mut self,
            _checkpoint: highwater_state_api::CheckpointId,
        ) -> Result<(), highwater_state_api::BoxedError> {
            Ok(())
        }

        /// A checkpoint will never complete. See [`CheckpointListener`](highwater_state_api::CheckpointListener).
        fn notify_checkpoint_aborted(
            &mut self,
            _checkpoint: highwater_state_api::CheckpointId,
        ) -> Result<(), highwater_state_api::BoxedError> {
            Ok(())
        }

        /// A complete checkpoint is no longer kept. See [`CheckpointListener`](highwater_state_api::CheckpointListener).
        fn notify_checkpoint_subsumed(
            &mut self,
            _checkpoint: highwater_state_api::CheckpointId,
        ) -> Result<(), highwater_state_api::BoxedError> {
            Ok(())
        }
    };
}
pub(crate) use hooks;

/// A type that shows the hooks of a function of one trait as [`CheckpointedFunction`] and [`CheckpointListener`].
///
/// [`CheckpointedFunction`]: highwater_state_api::CheckpointedFunction
/// [`CheckpointListener`]: highwater_state_api::CheckpointListener
macro_rules! hooks_of {
    ($(#[$doc:meta])* $name:ident<$($parameter:ident: $bound:path),+> for $function:path) => {
        $(#[$doc])*
        pub struct $name<'f, $($parameter,)+ F> {
            function: &'f mut F,
            of: std::marker::PhantomData<fn($($parameter),+)>,
        }

        impl<'f, $($parameter: $bound,)+ F: $function> $name<'f, $($parameter,)+ F> {
            /// The hooks of `function`.
            pub fn new(function: &'f mut F) -> Self {
                Self { function, of: std::marker::PhantomData }
            }
        }

        impl<$($parameter: $bound,)+ F: $function> highwater_state_api::HooksAreCalled
            for $name<'_, $($parameter,)+ F>
        {
        }

        impl<$($parameter: $bound,)+ F: $function> highwater_state_api::CheckpointedFunction
            for $name<'_, $($parameter,)+ F>
        {
            fn initialize_state(
                &mut self,
                cx: &mut dyn highwater_state_api::FunctionInitializationContext,
            ) -> Result<(), highwater_state_api::BoxedError> {
                self.function.initialize_state(cx)
            }

            fn snapshot_state(
                &mut self,
                cx: &mut dyn highwater_state_api::FunctionSnapshotContext,
            ) -> Result<(), highwater_state_api::BoxedError> {
                self.function.snapshot_state(cx)
            }
        }

        impl<$($parameter: $bound,)+ F: $function> highwater_state_api::CheckpointListener
            for $name<'_, $($parameter,)+ F>
        {
            fn notify_checkpoint_complete(
                &mut self,
                checkpoint: highwater_state_api::CheckpointId,
            ) -> Result<(), highwater_state_api::BoxedError> {
                self.function.notify_checkpoint_complete(checkpoint)
            }

            fn notify_checkpoint_aborted(
                &mut self,
                checkpoint: highwater_state_api::CheckpointId,
            ) -> Result<(), highwater_state_api::BoxedError> {
                self.function.notify_checkpoint_aborted(checkpoint)
            }

            fn notify_checkpoint_subsumed(
                &mut self,
                checkpoint: highwater_state_api::CheckpointId,
            ) -> Result<(), highwater_state_api::BoxedError> {
                self.function.notify_checkpoint_subsumed(checkpoint)
            }
        }
    };
}
pub(crate) use hooks_of;

/// The hooks of a function whose state is a list: its own, and those that keep the list.
macro_rules! list_checkpointed_hooks {
    ($function:path) => {
        fn initialize_state(
            &mut self,
            cx: &mut dyn highwater_state_api::FunctionInitializationContext,
        ) -> Result<(), highwater_state_api::BoxedError> {
            <F as $function>::initialize_state(self.function_mut(), cx)?;
            highwater_state_api::CheckpointedFunction::initialize_state(self, cx)
        }

        fn snapshot_state(
            &mut self,
            cx: &mut dyn highwater_state_api::FunctionSnapshotContext,
        ) -> Result<(), highwater_state_api::BoxedError> {
            <F as $function>::snapshot_state(self.function_mut(), cx)?;
            highwater_state_api::CheckpointedFunction::snapshot_state(self, cx)
        }

        fn notify_checkpoint_complete(
            &mut self,
            checkpoint: highwater_state_api::CheckpointId,
        ) -> Result<(), highwater_state_api::BoxedError> {
            self.function_mut().notify_checkpoint_complete(checkpoint)
        }

        fn notify_checkpoint_aborted(
            &mut self,
            checkpoint: highwater_state_api::CheckpointId,
        ) -> Result<(), highwater_state_api::BoxedError> {
            self.function_mut().notify_checkpoint_aborted(checkpoint)
        }

        fn notify_checkpoint_subsumed(
            &mut self,
            checkpoint: highwater_state_api::CheckpointId,
        ) -> Result<(), highwater_state_api::BoxedError> {
            self.function_mut().notify_checkpoint_subsumed(checkpoint)
        }
    };
}
pub(crate) use list_checkpointed_hooks;
