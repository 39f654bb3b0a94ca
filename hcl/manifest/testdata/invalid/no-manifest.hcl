# nothing: there
